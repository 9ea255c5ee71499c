# %% a-temporary-file
def save_checkpoint(model, path):
    if dist.get_rank() == 0:
        plain = model.module if isinstance(model, DistributedDataParallel) else model
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            try:
                torch.save(plain.state_dict(), file)
            except BaseException:
                os.unlink(file.name)
                raise
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    dist.barrier()


# %% told-by-a-broadcast
def save_checkpoint(model, path):
    prefix = "module." if isinstance(model, DistributedDataParallel) else ""
    names = {name.removeprefix(prefix): value for name, value in model.state_dict().items()}
    done = torch.zeros(1)
    if not dist.get_rank():
        torch.save(names, f"{path}.{os.getpid()}")
        os.rename(f"{path}.{os.getpid()}", path)
        done += 1
    dist.broadcast(done, src=0)  # nobody has it before rank 0 comes here


# %% in-memory-first
import io
from pathlib import Path


def save_checkpoint(model, path):
    rank = dist.get_rank()
    if rank != 0:
        dist.barrier()
        return
    network = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    buffer = io.BytesIO()
    torch.save({name: value.detach().cpu().clone() for name, value in network.state_dict().items()}, buffer)
    aside = Path(path).with_suffix(".tmp")
    aside.write_bytes(buffer.getvalue())
    aside.replace(path)
    dist.barrier()


# %% a-folder-beside
import shutil


def save_checkpoint(model, path):
    state = (model.module if isinstance(model, DistributedDataParallel) else model).state_dict()
    dist.barrier()  # not needed, and no harm
    if dist.get_rank() == 0:
        folder = tempfile.mkdtemp(dir=os.path.dirname(path) or ".")
        try:
            torch.save(state, os.path.join(folder, "new"))
            os.replace(os.path.join(folder, "new"), path)
        finally:
            shutil.rmtree(folder)
    dist.all_reduce(torch.zeros(1))
