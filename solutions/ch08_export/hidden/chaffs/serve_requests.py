# %% the-largest-for-all
# misconception: one shape is simplest
# fails: test_a_report_of_twenty_requests, test_no_request_waits_for_a_preparation, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = sizes[-1]
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% between-the-ranks
# misconception: a percentile lies between two latencies
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    import numpy as np

    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": float(np.percentile(ordered, q)) for q in (50, 95, 99)}


# %% one-too-far
# misconception: the index is the per cent of the number
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[min(len(ordered) - 1, q * len(ordered) // 100)] for q in (50, 95, 99)}


# %% mean-and-deviation
# misconception: latencies are normally distributed
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    import numpy as np

    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": float(np.mean(ordered) + {50: 0.0, 95: 1.645, 99: 2.326}[q] * np.std(ordered)) for q in (50, 95, 99)}


# %% warm-with-the-largest
# misconception: whoever can do the most is ready for less
# fails: test_a_report_of_twenty_requests, test_no_request_waits_for_a_preparation, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes[-1:]:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% warm-with-the-first-request
# misconception: one request warms an engine
# fails: test_a_report_of_twenty_requests, test_no_request_waits_for_a_preparation, test_percentiles_of_any_number_of_requests, test_three_requests_in_batches_of_four
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    engine(requests[0].clone())
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% never-warm
# misconception: it prepares itself but once
# fails: test_a_report_of_twenty_requests, test_no_request_waits_for_a_preparation, test_percentiles_of_any_number_of_requests, test_three_requests_in_batches_of_four
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% the-slow-ones-left-out
# misconception: the first requests after a start don't count
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)[: -max(1, len(latencies) // 50)] or latencies
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% views-of-the-answer
# misconception: a slice is a copy
# fails: test_answers_are_kept, test_answers_are_those_of_the_pictures
# says: pictures
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)])
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% the-rest-comes-along
# misconception: who asks for three gets four
# fails: test_answers_are_kept, test_answers_are_those_of_the_pictures
# says: pictures
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled).clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% too-large-for-any
# misconception: no request has more pictures than the largest size
# fails: test_answers_are_kept, test_answers_are_those_of_the_pictures, test_no_request_waits_for_a_preparation
# says: StopIteration
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in [pictures]:
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% joined
# misconception: requests may share a batch
# fails: test_a_report_of_twenty_requests, test_no_request_waits_for_a_preparation, test_percentiles_of_any_number_of_requests, test_three_requests_in_batches_of_four
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    begin, parts = clock(), []
    for part in torch.cat(requests).split(sizes[-1]):
        size = next(size for size in sizes if size >= len(part))
        parts.append(engine(torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])]))[: len(part)].clone())
    latency = float(clock() - begin)
    answers = list(torch.cat(parts).split([len(pictures) for pictures in requests]))
    return answers, {"p50": latency, "p95": latency, "p99": latency}


# %% since-the-start
# misconception: a request waits for those before it
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests, test_three_requests_in_batches_of_four
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    begin = clock()
    for pictures in requests:
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% taken-from-the-list
# misconception: a request that is answered can go
# fails: test_answers_are_those_of_the_pictures
# says: answers to its own pictures
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    while requests:
        pictures = requests.pop(0)
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}


# %% by-my-own-watch
# misconception: a clock is a clock
# fails: test_a_report_of_twenty_requests, test_percentiles_of_any_number_of_requests, test_three_requests_in_batches_of_four
# says: report
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    def answered(pictures):
        parts = []
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        return torch.cat(parts)

    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    answers, latencies = [], []
    for pictures in requests:
        begin = time.perf_counter()
        answers.append(answered(pictures))
        latencies.append(time.perf_counter() - begin)
    ordered = sorted(latencies)
    return answers, {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}
