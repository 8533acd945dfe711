"""Fields as plain values, and their form for the engine."""

import json

import pytest

import forebay as fb
from forebay._arguments import byte_size
from forebay.fields import specs


def test_a_training_picture_lists_its_operations_in_order():
    norm = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
    fields = {
        "x": fb.Image("image", fb.RandomResizedCrop(224), fb.RandomHorizontalFlip(), norm, dtype="float16"),
        "y": fb.Scalar("class", dtype="int64"),
    }
    assert specs(fields) == [
        [
            "x",
            {
                "kind": "image",
                "column": "image",
                "ops": [
                    {"op": "random_resized_crop", "size": [224, 224], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3], "interpolation": "bilinear"},
                    {"op": "random_horizontal_flip", "p": 0.5},
                    {"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
                ],
                "dtype": "float16",
                "layout": "NCHW",
            },
        ],
        ["y", {"kind": "scalar", "column": "class", "dtype": "int64"}],
    ]
    json.dumps(specs(fields))


def test_a_picture_without_a_type_is_bytes_until_it_is_normalised():
    assert fb.Image("a", fb.Resize(256)).dtype == "uint8"
    assert fb.Image("a", fb.Normalize((0.5,), (0.5,))).dtype == "float32"


def test_a_picture_lists_options_that_are_not_the_default():
    plain, chosen = fb.Image("a"), fb.Image("a", tolerant=True, apply_exif_orientation=True, scaled_decode=True)
    names = ("tolerant", "apply_exif_orientation", "scaled_decode")
    assert not any(name in plain._spec() for name in names)
    assert chosen._spec() == {**plain._spec(), **dict.fromkeys(names, True)}
    assert repr(chosen).endswith("tolerant=True, apply_exif_orientation=True, scaled_decode=True)")


def test_resize_distinguishes_one_number_from_two():
    assert fb.Resize(256)._spec()["size"] == 256
    assert fb.Resize((256, 128))._spec()["size"] == [256, 128]
    assert fb.CenterCrop(8)._spec()["size"] == [8, 8]


def test_all_fields_and_all_operations_have_a_common_class():
    classes = [value for value in (getattr(fb, name) for name in fb.__all__) if isinstance(value, type) and hasattr(value, "_spec")]
    fields = {value for value in classes if issubclass(value, fb.Field)}
    pictures = {fb.Image, fb.Mask, fb.Boxes, fb.BoxLabels, fb.ObjectMasks, fb.ClassMap, fb.KeyPoints, fb.Joint, fb.Mix, fb.Mosaic, fb.CopyPaste}
    tokens = {fb.Tokens, fb.Tokenize, fb.Chat, fb.AttentionMask, fb.Length}
    known = pictures | tokens | {fb.Scalar, fb.Array, fb.Text, fb.Bytes, fb.Json, fb.OneHot, fb.MultiHot}
    assert known == fields - {fb.Field}
    parts = {fb.FillInMiddle, fb.MaskedLM, fb.MixUp, fb.CutMix}
    assert all(issubclass(value, fb.ImageOp) for value in set(classes) - fields - parts)


def test_a_value_that_is_not_a_field_is_named():
    with pytest.raises(fb.ConfigError, match="x is <class"):
        specs({"x": fb.Image})
    with pytest.raises(fb.ConfigError, match="fields maps names to fields"):
        specs(["x"])
    with pytest.raises(fb.ConfigError, match=r"224 is not an operation of forebay, .* write Resize\(224\), RandomResizedCrop"):
        fb.Image("a", 224)
    with pytest.raises(fb.ConfigError, match="is not an operation of forebay, .* call the operations of other libraries for each sample"):
        fb.Image("a", len)
    with pytest.raises(TypeError, match="Image has no argument 'size': operations follow the column, as in Image"):
        fb.Image("a", size=224)
    with pytest.raises(fb.ConfigError, match="Joint: mask is Scalar.*, but it holds Image, Mask"):
        fb.Joint(mask=fb.Scalar("m"))


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (fb.Image("a", layout="nchw"), "layout of Image is \"NCHW\" or \"NHWC\", but it is 'nchw'"),
        (fb.Image("a", tolerant="yes"), "tolerant of Image is True or False, but it is 'yes'"),
        (fb.Image("a", fb.Resize(-3)), "size of Resize is a whole number, at least 1, but it is -3"),
        (fb.Image("a", fb.CenterCrop("8")), "size of CenterCrop is a whole number, at least 1, but it is '8'"),
        (fb.Image("a", fb.CenterCrop(2**40)), f"size of CenterCrop is a whole number, at most {2**32 - 1}, but"),
        (fb.Image("a", fb.RandomResizedCrop(8, scale=0.5)), "scale of RandomResizedCrop is a list of 2 numbers"),
        (fb.Image("a", fb.RandomResizedCrop(8, scale=(float("nan"), 1))), "scale of RandomResizedCrop[0] is a number"),
        (fb.Image("a", fb.Pad((1, 2, 3))), "padding of Pad is a number of pixels, (left and right, top and bottom) or"),
        (fb.Image("a", fb.RandomCrop(8, padding=-1)), "padding of RandomCrop is a whole number, at least 0, but it is -1"),
        (fb.Tokens("a", 4, truncate="a"), "truncate of Tokens is True or False, but it is 'a'"),
        (fb.Image("a", fb.RandomHorizontalFlip("x")), "p of RandomHorizontalFlip is a number, but it is 'x'"),
        (fb.Image("a", fb.Normalize(0.5, 0.5)), "mean of Normalize is a list of 3 numbers, but it is 0.5"),
        (fb.Tokens("a", -1), "length of Tokens is a whole number, at least 1, but it is -1"),
        (fb.Tokens("a", 4, pad="a"), f"pad of Tokens is a whole number, at least {-(2**63)}, but it is 'a'"),
        (fb.Scalar(3), "column of Scalar is a column's name, but it is 3"),
        (fb.Joint(b=fb.Image("a", layout="x")), "b: layout of Image is"),
    ],
)
def test_a_wrong_argument_of_a_field_is_named_with_the_field(field, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        specs({"x": field})
    assert str(caught.value).startswith(f"fields['x']: {sentence}")


def test_numbers_of_array_libraries_are_plain_numbers_in_the_json():
    numpy = pytest.importorskip("numpy")
    ops = (fb.Resize(numpy.int64(8)), fb.Normalize(numpy.zeros(3), numpy.ones(3, numpy.float32)))
    json.dumps(specs({"x": fb.Image("a", *ops), "t": fb.Tokens("t", numpy.uint8(3), pad=numpy.int32(-1))}))


@pytest.mark.parametrize(
    ("text", "size"),
    [("2gb", 2 << 30), ("1.5kb", 1536), ("7", 7), (" 10 MiB", 10 << 20), ("3b", 3), (12, 12), (None, None), ("1t", 1 << 40)],
)
def test_sizes_are_read_in_powers_of_1024(text, size):
    assert byte_size("memory", text) == size


@pytest.mark.parametrize("text", ["", "gb", "2xb", "two", "-1kb", "nan", "inf", "1bb", -1, True, [2]])
def test_an_invalid_size_names_its_argument(text):
    with pytest.raises(ValueError, match="memory"):
        byte_size("memory", text)
