# %% deviation-of-one
# misconception: standard-normal weights are the natural choice for standard-normal inputs
# fails: test_a_signal_gets_through_ten_layers, test_new_students_can_be_trained
# says: a factor of 20 is allowed
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(torch.relu(features)), features


# %% small-is-safe
# misconception: a small deviation keeps tanh out of saturation, and that is all there is to it
# fails: test_a_signal_gets_through_ten_layers, test_new_students_can_be_trained
# says: at least 0.02 is wanted
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(torch.relu(features)), features


# %% as-the-library-starts
# misconception: what nn.Linear draws by itself is made for any depth
# fails: test_a_signal_gets_through_ten_layers, test_new_students_can_be_trained
# says: at least 0.02 is wanted
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(torch.relu(features)), features


# %% smaller-but-all-positive
# misconception: the bound of the draw is what matters, not its mean
# fails: test_a_signal_gets_through_ten_layers, test_new_students_can_be_trained
# says: a factor of 20 is allowed
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.uniform_(layer.weight, 0, layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(torch.relu(features)), features


# %% averaging-units
# misconception: a constant that keeps the size of the signal is a start like any other
# fails: test_new_students_can_be_trained, test_no_two_units_are_alike
# says: No two units of a layer start with the same weights
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.constant_(layer.weight, 1 / layer.in_features**0.5 if layer is self.hidden[0] else 1 / width)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(torch.relu(features)), features


# %% rectifier-module-in-place
# misconception: in place saves memory, and nobody reads the old values
# fails: test_features_are_not_rectified, test_features_keep_their_sign, test_gradients_of_logits_and_features
# says: The features: 1 of 2 elements
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(width, n_classes))
        self.rectify, self.head = self.head
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(self.rectify(features)), features


# %% copied-too-late
# misconception: when the copy is made does not matter, as long as there is one
# fails: test_features_are_not_rectified, test_features_keep_their_sign, test_gradients_of_logits_and_features
# says: The features: 1 of 2 elements
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        logits = self.head(features.relu_())
        return logits, features.clone()


# %% features-detached
# misconception: a detached copy is the safe thing to hand out
# fails: test_features_are_not_rectified, test_gradients_of_logits_and_features, test_logits_see_rectified_features, test_student_has_its_layers
# says: Your code raised
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        seen = features.detach().clone()
        return self.head(features.relu_()), seen


# %% detached-on-the-way-to-the-head
# misconception: rectifying a detached alias leaves the features alone
# fails: test_a_signal_gets_through_ten_layers, test_features_are_not_rectified, test_features_keep_their_sign, test_gradients_of_logits_and_features, test_new_students_can_be_trained, test_no_two_units_are_alike
# says: The features: 1 of 2 elements
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(features.detach().relu_()), features


# %% tanh-everywhere
# misconception: the features are what the last hidden layer hands on, so after its activation
# fails: test_features_are_not_rectified, test_features_keep_their_sign, test_gradients_of_logits_and_features, test_logits_see_rectified_features
# says: The features are what the last hidden map gives
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.head(torch.relu(x)), x


# %% unrectified-logits
# misconception: leaving the rectifier out is the simplest way to keep the features
# fails: test_features_keep_their_sign, test_gradients_of_logits_and_features, test_logits_see_rectified_features
# says: The logits
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return self.head(features), features


# %% without-depth
# misconception: gradients vanish in depth, so build fewer layers
# fails: test_student_has_its_layers
# says: hold the linear maps that were asked for
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(n_inputs, width), nn.Linear(width, width)])
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        features = self.hidden[1](torch.tanh(self.hidden[0](x)))
        return self.head(torch.relu(features)), features


# %% features-first
# misconception: the order in which two results are returned does not matter
# fails: test_features_are_not_rectified, test_features_keep_their_sign, test_gradients_of_logits_and_features, test_logits_see_rectified_features, test_student_has_its_layers, test_student_has_its_shapes
# says: The shape of the logits
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        return features, self.head(torch.relu(features))
