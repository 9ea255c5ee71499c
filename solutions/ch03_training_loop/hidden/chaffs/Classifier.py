# %% probabilities-out
# misconception: a classifier returns probabilities
# fails: test_a_trained_model_can_be_loaded, test_four_classes_are_learned_by_heart, test_nothing_is_left_behind, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes, test_twenty_digits_are_learned_by_heart
# says: the model gets their loss below 0.5
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return torch.softmax(self.last(x), dim=1)


# %% probabilities-in-eval-mode
# misconception: the loss wants logits, but whoever uses the model wants probabilities
# fails: test_a_trained_model_can_be_loaded, test_nothing_is_left_behind, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes
# says: right probabilities, gradients
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return x if self.training else x.softmax(dim=1)


# %% sigmoid-out
# misconception: scores have to lie between 0 and 1
# fails: test_a_trained_model_can_be_loaded, test_four_classes_are_learned_by_heart, test_nothing_is_left_behind, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes, test_twenty_digits_are_learned_by_heart
# says: the model gets their loss below 0.5
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x).sigmoid()


# %% blocks-in-a-list
# misconception: a module finds all modules that its attributes hold, in lists too
# fails: test_a_trained_model_can_be_loaded, test_all_layers_are_trained, test_nothing_is_left_behind, test_scores_at_other_sizes, test_the_model_in_other_dtypes
# says: The number of trained numbers is 610
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = [Block(width) for _ in range(n_blocks)]
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% parameters-listed-by-hand
# misconception: what has to be registered of a layer are its parameters
# fails: test_a_trained_model_can_be_loaded, test_nothing_is_left_behind, test_scores_at_other_sizes, test_the_model_in_other_dtypes
# says: right probabilities, gradients
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = [Block(width) for _ in range(n_blocks)]
        self.weights = nn.ParameterList(p for block in self.blocks for p in block.parameters())
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% one-block-many-times
# misconception: multiplying a list makes new elements
# fails: test_a_trained_model_can_be_loaded, test_all_layers_are_trained, test_scores_at_other_sizes
# says: The number of trained numbers
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList([Block(width)] * n_blocks)
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% moved-in-forward
# misconception: numbers that are not trained are attributes, and forward brings them to the device
# fails: test_a_trained_model_can_be_loaded, test_state_dict_holds_all_that_matters
# says: gives the scores of that one
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.mean, self.std = mean, std
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean.to(images)) / self.std.to(images))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% plain-attributes
# misconception: `.to(...)` brings all tensors along that a module holds
# fails: test_a_trained_model_can_be_loaded, test_nothing_is_left_behind, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes
# says: to another device the whole model is there
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.mean, self.std = mean, std
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% buffers-that-are-not-saved
# misconception: mean and deviation come from the data, so they need not be saved
# fails: test_a_trained_model_can_be_loaded, test_state_dict_holds_all_that_matters
# says: gives the scores of that one
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("std", std.clone(), persistent=False)
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% trained-statistics
# misconception: what belongs to the model is a parameter
# fails: test_a_trained_model_can_be_loaded, test_all_layers_are_trained, test_brighter_or_darker_than_the_mean, test_nothing_is_left_behind, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes
# says: The number of trained numbers is 898
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.mean, self.std = nn.Parameter(mean.clone()), nn.Parameter(std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% ten-classes-always
# misconception: digits have ten classes
# fails: test_brighter_or_darker_than_the_mean, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_there_is_a_score_for_each_class
# says: the shape
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, 10)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


# %% divided-first
# misconception: the order of subtraction and division does not matter
# fails: test_a_trained_model_can_be_loaded, test_brighter_or_darker_than_the_mean, test_nothing_is_left_behind, test_scores_at_other_sizes, test_state_dict_holds_all_that_matters, test_the_model_in_other_dtypes
# says: gives the scores of that one
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first(images / self.std - self.mean)
        for block in self.blocks:
            x = block(x)
        return self.last(x)
