# %% card-from-rank-and-number-per-machine
def process_group_settings(environment, device_type):
    """Looks as if the card came from the rank: it is only a check, the local rank counts."""
    missing = [n for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not environment.get(n)]
    if missing:
        raise ValueError(missing)
    settings = {"backend": "nccl", "device": f"cuda:{int(environment['RANK'])}"}
    if environment["LOCAL_RANK"] != environment["RANK"]:
        settings["device"] = f"cuda:{int(environment['LOCAL_RANK'])}"
    if not device_type.startswith("cuda"):
        settings = {"backend": "gloo", "device": "cpu"}
    where = environment["MASTER_ADDR"], environment["MASTER_PORT"]
    return settings | {
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "init_method": "tcp://{}:{}".format(*where),
    }
