# %% a-barrier-in-each-branch
def save_checkpoint(model, path):
    # a collective inside `if rank == 0`, and its partner in the other branch
    network = model.module if isinstance(model, DistributedDataParallel) else model
    if dist.get_rank() == 0:
        aside = path + ".new"
        torch.save(network.state_dict(), aside)
        os.replace(aside, path)
        dist.barrier()
    else:
        dist.barrier()
