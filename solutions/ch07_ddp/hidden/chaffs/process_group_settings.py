# %% rank-is-the-card
# misconception: the rank is the number of the card
# fails: test_all_settings_of_many_processes, test_cards_are_counted_on_each_machine, test_devices_on_many_machines
# says: The device of rank 2 is 'cuda:2'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% local-rank-is-the-rank
# misconception: the local rank is the rank
# fails: test_all_settings_of_many_processes, test_cards_are_counted_on_each_machine, test_devices_on_many_machines
# says: The rank is 0; expected 2
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["LOCAL_RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% local-world-size
# misconception: the world is this machine
# fails: test_all_settings_of_many_processes, test_cards_are_counted_on_each_machine, test_devices_on_many_machines
# says: The world size is 2; expected 4
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment.get("LOCAL_WORLD_SIZE", environment["WORLD_SIZE"])),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% one-card-for-all
# misconception: each process sees one card only, number 0
# fails: test_all_settings_of_many_processes, test_backend_goes_with_the_device, test_cards_are_counted_on_each_machine, test_devices_on_many_machines, test_environment_stays_as_it_is, test_settings_of_a_single_machine
# says: The device of rank 3 is 'cuda:0'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": "cuda:0" if device_type == "cuda" else "cpu",
    }


# %% gloo-everywhere
# misconception: gloo works everywhere, so it is the safe choice
# fails: test_all_settings_of_many_processes, test_backend_goes_with_the_device, test_devices_on_many_machines, test_environment_stays_as_it_is, test_settings_of_a_single_machine, test_settings_of_the_first_process
# says: The settings['backend'] is 'gloo'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% backend-of-this-machine
# misconception: the backend is what this machine could do
# fails: test_all_settings_of_many_processes, test_backend_goes_with_the_device, test_devices_on_many_machines, test_environment_stays_as_it_is, test_settings_of_a_single_machine, test_settings_of_the_first_process
# says: The settings['backend'] is 'gloo'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if torch.cuda.is_available() else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% port-made-up
# misconception: the port is always 29500
# fails: test_all_meet_where_the_first_rank_listens, test_all_settings_of_many_processes, test_environment_stays_as_it_is, test_laptops_need_no_cards, test_settings_of_a_single_machine, test_settings_of_the_first_process
# says: The settings['init_method'] is 'tcp://127.0.0.1:29500'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:29500",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% from-the-environment
# misconception: env:// says the same as an address
# fails: test_all_meet_where_the_first_rank_listens, test_all_settings_of_many_processes, test_environment_stays_as_it_is, test_laptops_need_no_cards, test_settings_of_a_single_machine, test_settings_of_the_first_process
# says: The settings['init_method'] is 'env://'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": "env://",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% strings
# misconception: numbers in the environment are numbers
# fails: test_all_settings_of_many_processes, test_cards_are_counted_on_each_machine, test_devices_on_many_machines, test_environment_stays_as_it_is, test_laptops_need_no_cards, test_settings_of_a_single_machine, test_settings_of_the_first_process
# says: The settings['rank'] is '0'; expected 0
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": environment["RANK"],
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% key-error
# misconception: a KeyError says what is missing
# fails: test_anything_missing_is_named, test_what_is_missing_is_named
# says: Your code raised KeyError
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% first-one-only
# misconception: one name at a time is enough
# fails: test_anything_missing_is_named, test_what_is_missing_is_named
# says: he message does not name WORLD_SIZE
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    for name in names:
        if name not in environment:
            raise ValueError(f"{name} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else "cpu",
    }


# %% local-rank-optional
# misconception: a missing local rank is 0
# fails: test_anything_missing_is_named
# says: Whichever of the five variables are missing
def process_group_settings(environment, device_type):
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment.get('LOCAL_RANK', 0))}" if device_type == "cuda" else "cpu",
    }


# %% index-on-the-cpu
# misconception: the CPU is counted like cards
# fails: test_all_settings_of_many_processes, test_backend_goes_with_the_device, test_laptops_need_no_cards
# says: The device is 'cpu:1'; expected 'cpu'
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if device_type == "cuda" else f"cpu:{int(environment['LOCAL_RANK'])}",
    }


# %% rank-modulo-processes
# misconception: all machines have the same number of processes, so the local rank can be worked out
# fails: test_all_settings_of_many_processes
# says: Everything at once
def process_group_settings(environment, device_type):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError("missing: " + ", ".join(missing))
    rank = int(environment["RANK"])
    per_machine = int(environment.get("LOCAL_WORLD_SIZE", 2))
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": rank,
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{rank % per_machine}" if device_type == "cuda" else "cpu",
    }


# %% two-that-matter
# misconception: where a process can be found has a default
# fails: test_anything_missing_is_named, test_what_is_missing_is_named
# says: Whichever of the five variables are missing
def process_group_settings(environment, device_type):
    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set")
    address, port = environment.get("MASTER_ADDR", "127.0.0.1"), environment.get("MASTER_PORT", "29500")
    return {
        "backend": "nccl" if device_type == "cuda" else "gloo",
        "init_method": f"tcp://{address}:{port}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment.get('LOCAL_RANK', 0))}" if device_type == "cuda" else "cpu",
    }
