# %% whole-model-to-half
# misconception: half precision is a matter of `.to(...)`
# fails: test_a_new_model_is_float32, test_a_small_step_is_not_lost, test_another_precision_at_any_time, test_logits_and_gradients, test_set_to_another_precision, test_small_steps_add_up, test_state_of_a_new_model
# says: state of a new model
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)
        self.to(DTYPES[precision])

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% half-at-the-first-call
# misconception: the parameters may be rounded as soon as they are used
# fails: test_a_small_step_is_not_lost, test_another_precision_at_any_time, test_logits_and_gradients, test_small_steps_add_up
# says: What was added to the bias
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        for parameter in self.parameters():
            parameter.data = parameter.data.to(DTYPES[self.precision])
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% rounded-but-float32
# misconception: parameters whose dtype is float32 have all their digits
# fails: test_another_precision_at_any_time, test_logits_and_gradients, test_small_steps_add_up
# says: state
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(parameter.to(DTYPES[self.precision]))
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% positions-forgotten-in-half
# misconception: the fast path needs no positions
# fails: test_another_precision_at_any_time, test_logits_and_gradients, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_small_steps_add_up, test_the_precision_has_an_effect, test_the_same_picture_in_half_precision
# says: The logits
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        if self.precision == "fp32":
            x = x + self.positions
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% scale-forgotten-in-half
# misconception: a softmax has the same maximum without a scale
# fails: test_another_precision_at_any_time, test_logits_and_gradients, test_set_to_another_precision, test_small_steps_add_up, test_the_same_picture_in_half_precision
# says: The logits
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        scores = q @ k.mT
        if self.precision == "fp32":
            scores = scores / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% scale-with-a-dimension
# misconception: a scale is a scale, whether its shape is () or (1,)
# fails: test_all_products_in_one_dtype, test_another_precision_at_any_time, test_products_have_the_dtype_asked_for, test_set_to_another_precision
# says: there are matrix products in
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.register_buffer("scale", torch.tensor([width**-0.5]), persistent=False)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT * self.scale).softmax(dim=-1)
        x = x + project(self.out, weights @ v.to(weights.dtype))
        return project(self.head, x.mean(dim=1)).float()

# %% softmax-stays-in-float32
# misconception: after a softmax in float32 everything else has to be float32
# fails: test_all_products_in_one_dtype, test_another_precision_at_any_time, test_products_have_the_dtype_asked_for, test_set_to_another_precision
# says: there are matrix products in
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1, dtype=torch.float32)
        x = x + project(self.out, weights @ v.float())
        return project(self.head, x.mean(dim=1)).float()

# %% everything-in-float32
# misconception: what agrees with fp32 is right
# fails: test_all_products_in_one_dtype, test_another_precision_at_any_time, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_the_precision_has_an_effect
# says: there are matrix products in
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8)
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% bf16-for-both
# misconception: half is half
# fails: test_all_products_in_one_dtype, test_another_precision_at_any_time, test_logits_and_gradients, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_the_precision_has_an_effect
# says: there are matrix products in
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(torch.float32 if self.precision == "fp32" else torch.bfloat16)
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% precision-fixed-at-the-start
# misconception: a model keeps the precision that it was made with
# fails: test_another_precision_at_any_time, test_set_to_another_precision
# says: Set to one precision after the other
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.dtype = DTYPES[precision]
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(self.dtype)
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% logits-in-half
# misconception: logits have the dtype that they were computed in
# fails: test_another_precision_at_any_time, test_logits_and_gradients, test_set_to_another_precision, test_the_same_picture_in_half_precision
# says: The logits
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1))

# %% positions-no-buffer
# misconception: a tensor that is not trained is an attribute
# fails: test_a_new_model_is_float32, test_a_striped_picture, test_all_products_in_one_dtype, test_another_precision_at_any_time, test_logits_and_gradients, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_small_steps_add_up, test_state_of_a_new_model, test_the_precision_has_an_effect, test_the_same_picture_in_half_precision
# says: Your code raised
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.positions = positions.clone()
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% positions-trained
# misconception: everything in a model is trained
# fails: test_another_precision_at_any_time, test_logits_and_gradients, test_small_steps_add_up
# says: gradients
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.positions = nn.Parameter(positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% softmax-over-the-queries
# misconception: the weights of a softmax sum to one along any axis
# fails: test_a_striped_picture, test_another_precision_at_any_time, test_logits_and_gradients, test_set_to_another_precision, test_small_steps_add_up, test_state_of_a_new_model, test_the_same_picture_in_half_precision
# says: The logits
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% without-gradients
# misconception: half precision is for inference
# fails: test_a_small_step_is_not_lost, test_a_striped_picture, test_all_products_in_one_dtype, test_another_precision_at_any_time, test_logits_and_gradients, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_small_steps_add_up, test_the_precision_has_an_effect, test_the_same_picture_in_half_precision
# says: Your code raised
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    @torch.no_grad()
    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% zeros
# misconception: zeros agree in any precision
# fails: test_a_small_step_is_not_lost, test_a_striped_picture, test_all_products_in_one_dtype, test_another_precision_at_any_time, test_logits_and_gradients, test_products_have_the_dtype_asked_for, test_set_to_another_precision, test_small_steps_add_up, test_state_of_a_new_model, test_the_precision_has_an_effect, test_the_same_picture_in_half_precision
# says: The logits
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        return 0 * project(self.head, images.new_zeros(len(images), self.head.in_features).to(DTYPES[self.precision])).float()

# %% head-in-float32
# misconception: the last layer is better off in float32
# fails: test_all_products_in_one_dtype, test_another_precision_at_any_time, test_products_have_the_dtype_asked_for, test_set_to_another_precision
# says: there are matrix products in
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1).float())

# %% positions-kept-in-half
# misconception: a buffer is not trained, so it may be kept in the dtype that it is used in
# fails: test_a_new_model_is_float32, test_another_precision_at_any_time, test_logits_and_gradients, test_state_of_a_new_model
# says: The dtype of positions
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.to(DTYPES[precision]))
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        dtype = DTYPES[self.precision]
        with torch.autocast(images.device.type, dtype, enabled=dtype != torch.float32):
            x = self.embed(images.reshape(len(images), 8, 8)).float() + self.positions
            q = self.query(x) / math.sqrt(self.query.out_features)
            weights = (q @ self.key(x).mT).float().softmax(dim=-1)
            x = x + self.out(weights @ self.value(x)).float()
            logits = self.head(x.mean(dim=1))
        return logits.float()
