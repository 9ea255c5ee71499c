# %% nobody-waits
# misconception: the others need not wait
# fails: test_all_wait_for_a_slow_disk, test_rank_0_writes_and_both_come_back
# says: there is no new file
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)


# %% barrier-first
# misconception: a barrier before writing is as good as one after
# fails: test_all_wait_for_a_slow_disk, test_rank_0_writes_and_both_come_back
# says: the whole new file is there nevertheless
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)


# %% every-rank-writes
# misconception: each rank saves its own model
# fails: test_all_wait_for_a_slow_disk, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back
# says: has written
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.is_initialized():
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% a-name-for-each-rank
# misconception: each rank needs a file of its own
# fails: test_all_wait_for_a_slow_disk, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back
# says: has written
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    path = f"{path}.rank{dist.get_rank()}" if dist.get_rank() else path
    if True:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% the-last-rank-writes
# misconception: any one rank will do
# fails: test_all_wait_for_a_slow_disk, test_names_that_begin_with_module_by_right, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back, test_the_file_has_the_names_of_the_plain_model
# says: there is no new file
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == dist.get_world_size() - 1:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% removed-before-saving
# misconception: the place has to be free first
# fails: test_a_failed_save_leaves_the_old_file, test_half_a_checkpoint
# says: the file that was there before is still there
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        if os.path.exists(path):
            os.remove(path)
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% in-place
# misconception: torch.save is atomic
# fails: test_a_failed_save_leaves_the_old_file, test_half_a_checkpoint, test_readers_of_the_old_file_keep_it
# says: is still there, and complete
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path)
    dist.barrier()


# %% copied-to-its-place
# misconception: copying a complete file to its place is as good as moving it
# fails: test_readers_of_the_old_file_keep_it
# says: was written over in place
import shutil


def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        shutil.copyfile(path + ".partial", path)
        os.remove(path + ".partial")
    dist.barrier()


# %% leftovers
# misconception: the file aside may stay, as a backup
# fails: test_a_failed_save_leaves_the_old_file, test_all_wait_for_a_slow_disk, test_half_a_checkpoint, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back, test_readers_of_the_old_file_keep_it
# says: The list of files that rank 0 has written
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        os.link(path + ".partial", path + ".link")
        os.replace(path + ".link", path)
    dist.barrier()


# %% wrapped-names
# misconception: names are those of the model that was passed
# fails: test_names_that_begin_with_module_by_right, test_rank_0_alone_writes, test_the_file_has_the_names_of_the_plain_model
# says: What is in the file
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% the-whole-module
# misconception: saving the module saves the weights
# fails: test_a_failed_save_leaves_the_old_file, test_all_wait_for_a_slow_disk, test_half_a_checkpoint, test_names_that_begin_with_module_by_right, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back, test_readers_of_the_old_file_keep_it, test_the_file_has_the_names_of_the_plain_model
# says: What is in the file
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save({"model": network.state_dict()}, path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% parameters-only
# misconception: parameters are all of a model
# fails: test_a_failed_save_leaves_the_old_file, test_all_wait_for_a_slow_disk, test_half_a_checkpoint, test_rank_0_alone_writes, test_readers_of_the_old_file_keep_it
# says: its own parameters and buffers
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save({n: p.detach() for n, p in network.named_parameters()}, path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% barrier-for-one
# misconception: only the one that writes has to wait
# fails: test_all_wait_for_a_slow_disk, test_names_that_begin_with_module_by_right, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back, test_the_file_has_the_names_of_the_plain_model
# says: both come back
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
        dist.barrier()


# %% averaged-buffers
# misconception: the ranks' statistics are averaged before saving
# fails: test_all_wait_for_a_slow_disk, test_rank_0_alone_writes
# says: its own parameters and buffers
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    for buffer in network.buffers():
        dist.all_reduce(buffer)
        buffer.copy_(buffer / dist.get_world_size())
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% nothing-saved
# misconception: nothing is as safe as no file
# fails: test_a_failed_save_leaves_the_old_file, test_all_wait_for_a_slow_disk, test_half_a_checkpoint, test_names_that_begin_with_module_by_right, test_rank_0_alone_writes, test_rank_0_writes_and_both_come_back, test_readers_of_the_old_file_keep_it, test_the_file_has_the_names_of_the_plain_model
# says: there is no new file
def save_checkpoint(model, path):
    dist.barrier()


# %% every-module-cut-off
# misconception: `module.` in a name is always the wrapper's
# fails: test_names_that_begin_with_module_by_right
# says: A layer that is called
def save_checkpoint(model, path):
    if dist.get_rank() == 0:
        state = {name.replace("module.", ""): value for name, value in model.state_dict().items()}
        torch.save(state, path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()


# %% errors-swallowed
# misconception: a checkpoint less is no reason to stop
# fails: test_half_a_checkpoint
# says: `save_checkpoint` raised nothing
def save_checkpoint(model, path):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        try:
            torch.save(network.state_dict(), path + ".partial")
            os.replace(path + ".partial", path)
        except Exception as error:
            print("could not save:", error)
    dist.barrier()


# %% wrapper-s-prefix-off-all-names
# misconception: a name that begins with `module.` has it from the wrapper
# fails: test_names_that_begin_with_module_by_right
# says: A layer that is called
def save_checkpoint(model, path):
    if dist.get_rank() == 0:
        state = {name.removeprefix("module."): value for name, value in model.state_dict().items()}
        torch.save(state, path + ".partial")
        os.replace(path + ".partial", path)
    dist.barrier()
