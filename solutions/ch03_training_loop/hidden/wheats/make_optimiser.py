# %% by-kind-of-module
def make_optimiser(model, lr, weight_decay):
    decaying = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
    decay = {id(module.weight) for module in model.modules() if isinstance(module, decaying)}
    groups = {True: [], False: []}
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups[id(parameter) in decay].append(parameter)
    return torch.optim.AdamW(
        [{"params": groups[True], "weight_decay": weight_decay}, {"params": groups[False], "weight_decay": 0}], lr=lr
    )

# %% adam-with-decoupled-decay
def make_optimiser(model, lr, weight_decay):
    weights, others = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        (others if parameter.ndim == 1 else weights).append(parameter)
    optimiser = torch.optim.Adam(weights or others, lr=lr, weight_decay=weight_decay, decoupled_weight_decay=True)
    if not weights:
        optimiser.param_groups[0]["weight_decay"] = 0.0
    elif others:
        optimiser.add_param_group({"params": others, "weight_decay": 0.0})
    return optimiser

# %% a-group-for-each
def make_optimiser(model, lr, weight_decay):
    return torch.optim.AdamW(
        [
            {"params": [parameter], "lr": lr, "weight_decay": weight_decay * (parameter.dim() >= 2)}
            for parameter in model.parameters()
            if parameter.requires_grad
        ]
    )

# %% normalisation-by-kind-and-bias-by-name
NORMALISATION = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
)


def make_optimiser(model, lr, weight_decay):
    plain = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if name.endswith("bias") or isinstance(module, NORMALISATION):
                plain.add(parameter)
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        dict(params=[p for p in trainable if p not in plain]),
        dict(params=[p for p in trainable if p in plain], weight_decay=0.0),
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, weight_decay=weight_decay)

# %% an-optimiser-of-ones-own
class DecoupledAdam(torch.optim.Optimizer):
    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "decay": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(t=0, first=torch.zeros_like(p), second=torch.zeros_like(p))
                state["t"] += 1
                state["first"].lerp_(p.grad, 0.1)
                state["second"].lerp_(p.grad.square(), 0.001)
                first = state["first"] / (1 - 0.9 ** state["t"])
                second = state["second"] / (1 - 0.999 ** state["t"])
                p.mul_(1 - group["lr"] * group["decay"])
                p.sub_(group["lr"] * first / (second.sqrt() + 1e-8))


def make_optimiser(model, lr, weight_decay):
    trainable = [p for p in model.parameters() if p.requires_grad]
    weights = [p for p in trainable if p.dim() > 1]
    others = [p for p in trainable if p.dim() == 1]
    return DecoupledAdam([{"params": weights, "decay": weight_decay}, {"params": others}], lr)
