# %% try-each
def process_group_settings(environment, device_type):
    found, missing = {}, []
    for name in ["WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"]:
        try:
            found[name] = environment[name]
        except KeyError:
            missing.append(name)
    if missing:
        raise ValueError("missing: " + " ".join(missing))
    backend, device = {"cpu": ("gloo", "cpu"), "cuda": ("nccl", "cuda:" + found["LOCAL_RANK"])}[device_type]
    return dict(
        backend=backend,
        init_method="tcp://%s:%s" % (found["MASTER_ADDR"], found["MASTER_PORT"]),
        rank=int(found["RANK"]),
        world_size=int(found["WORLD_SIZE"]),
        device=device,
    )

# %% own-exception
class NotStartedByTorchrun(ValueError):
    def __init__(self, names):
        super().__init__(f"the environment lacks {sorted(names)}")


def process_group_settings(environment, device_type):
    lacking = {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE"} - set(environment)
    if lacking:
        raise NotStartedByTorchrun(lacking)
    get = environment.get
    settings = {"backend": "gloo", "device": device_type}
    if device_type != "cpu":
        settings = {"backend": "nccl", "device": str(torch.device(device_type, int(get("LOCAL_RANK"))))}
    settings["init_method"] = "tcp://" + ":".join((get("MASTER_ADDR"), get("MASTER_PORT")))
    settings.update(rank=int(get("RANK")), world_size=int(get("WORLD_SIZE")))
    return settings

# %% all-five-in-any-case
def process_group_settings(environment, device_type):
    """The message lists all that is needed, whatever is missing."""
    needed = "RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT".split()
    try:
        rank, local, size, address, port = (environment[name] for name in needed)
    except KeyError as error:
        raise ValueError(f"needed: {', '.join(needed)}") from error
    match device_type:
        case "cuda":
            kind = ("nccl", f"cuda:{local}")
        case _:
            kind = ("gloo", "cpu")
    return {"backend": kind[0], "device": kind[1], "rank": int(rank), "world_size": int(size),
            "init_method": f"tcp://{address}:{int(port)}"}
