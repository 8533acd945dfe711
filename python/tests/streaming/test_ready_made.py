"""The ready-made data sets: their samples, and the arguments and defaults of the reference."""

import inspect
import io

import numpy as np
import pytest
from PIL import Image

from forebay.streaming.base.format import MDSWriter

CLASSES = {
    "vision": ["StreamingADE20K", "StreamingCIFAR10", "StreamingCOCO", "StreamingImageNet"],
    "text": ["StreamingC4", "StreamingEnWiki", "StreamingPile"],
    "multimodal": ["StreamingInsideWebVid", "StreamingOutsideDTWebVid", "StreamingOutsideGIWebVid"],
}
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def encoded(form, mode="RGB"):
    out = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(out, form)
    return out.getvalue()


def write(folder, columns, samples):
    with MDSWriter(out=str(folder), columns=columns) as writer:
        for sample in samples:
            writer.write(sample)
    return str(folder)


def arguments_of(cls):
    """Every keyword that a class takes, with its default, through all constructors that pass keywords on."""
    found = {}
    for base in cls.__mro__:
        if "__init__" in vars(base) and base.__module__.split(".")[0] in ("forebay", "streaming"):
            parameters = inspect.signature(base.__init__).parameters.values()
            for parameter in parameters:
                if parameter.kind is parameter.KEYWORD_ONLY:
                    found.setdefault(parameter.name, parameter.default)
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return found
    return found


@pytest.mark.parametrize(("package", "name"), [(package, name) for package in CLASSES for name in CLASSES[package]])
def test_arguments_and_defaults_equal_the_reference_s(reference, package, name):
    from forebay import streaming

    ours = getattr(getattr(streaming, package), name)
    theirs = arguments_of(getattr(reference(package), name))
    mine = arguments_of(ours)
    assert {argument: mine.get(argument, "missing") for argument in theirs} == theirs


def test_pictures_and_classes_are_transformed(tmp_path):
    from forebay.streaming.vision import StreamingCIFAR10, StreamingImageNet

    picture = Image.fromarray(PIXELS)
    pil = write(tmp_path / "pil", {"x": "pil", "y": "int"}, [{"x": picture, "y": 3}])
    x, y = StreamingCIFAR10(local=pil, batch_size=1)[0]
    assert x.shape == (3, 6, 8) and y == 3
    assert (x.numpy() * 255).round().transpose(1, 2, 0).tolist() == PIXELS.tolist()

    jpeg = write(tmp_path / "jpeg", {"x": "jpeg", "y": "int"}, [{"x": picture, "y": 3}])
    transforms = {"transform": lambda x: x.size, "target_transform": lambda y: y + 1}
    dataset = StreamingImageNet(local=jpeg, batch_size=1, **transforms)
    assert next(iter(dataset)) == ((8, 6), 4)
    both = StreamingImageNet(local=jpeg, batch_size=1, transforms=lambda x, y: (y, x.mode))
    assert both[0] == (3, "RGB")
    with pytest.raises(ValueError, match="Only transforms or transform/target_transform"):
        StreamingImageNet(local=jpeg, batch_size=1, transforms=lambda x, y: (x, y), transform=lambda x: x)
    with pytest.raises(TypeError, match="batch_size"):
        StreamingImageNet(local=jpeg)


def test_a_segmentation_is_transformed_with_its_picture(tmp_path):
    from forebay.streaming.vision import StreamingADE20K

    sample = {"uid": b"00000001", "x": encoded("JPEG"), "y": encoded("PNG", "L")}
    folder = write(tmp_path, {"uid": "bytes", "x": "jpeg", "y": "png"}, [sample])
    dataset = StreamingADE20K(
        local=folder,
        batch_size=1,
        joint_transform=lambda pair: (pair[0].rotate(90, expand=True), pair[1]),
        transform=lambda x: ("picture", x.size),
        target_transform=lambda y: ("segmentation", y.mode),
    )
    assert dataset[0] == (("picture", (6, 8)), ("segmentation", "L"))


def test_a_detection_sample_has_its_boxes(tmp_path):
    from forebay.streaming.vision import StreamingCOCO

    columns = {"img": "jpeg", "img_id": "int", "htot": "int", "wtot": "int"}
    columns |= {"bbox_sizes": "ndarray:float32", "bbox_labels": "ndarray:int64"}
    boxes, labels = np.ones((2, 4), np.float32), np.array([1, 2])
    sample = {"img": encoded("JPEG", "L"), "img_id": 9, "htot": 6, "wtot": 8}
    folder = write(tmp_path, columns, [{**sample, "bbox_sizes": boxes, "bbox_labels": labels}])
    image, number, size, found, numbers = StreamingCOCO(local=folder, batch_size=1)[0]
    assert (image.mode, number, size) == ("RGB", 9, (6, 8))
    assert found.tolist() == boxes.tolist() and numbers.tolist() == [1, 2]
    dataset = StreamingCOCO(local=folder, batch_size=1, transform=lambda i, size, b, n: ("img", size, b[:1], n[:1]))
    assert dataset[0][:3] == ("img", 9, (6, 8)) and len(dataset[0][3]) == 1


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer of words without a padding token, like GPT-2's."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<end>": 0, "one": 1, "two": 2, "three": 3}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(tmp_path / "tokenizer")
    return str(tmp_path / "tokenizer")


@pytest.mark.parametrize("name", ["StreamingC4", "StreamingPile"])
def test_texts_are_tokenised_to_one_length(tmp_path, tokenizer, name):
    from forebay.streaming import text

    folder = write(tmp_path / "texts", {"text": "str"}, [{"text": "one two three one two"}, {"text": "three"}])
    cls = getattr(text, name)
    dataset = cls(local=folder, batch_size=1, tokenizer_name=tokenizer, max_seq_len=3, group_method="truncate")
    assert [dataset[i]["input_ids"] for i in range(2)] == [[1, 2, 3], [3, 0, 0]]
    assert dataset[1]["attention_mask"] == [1, 0, 0]
    with pytest.raises(ValueError, match="group_method"):
        cls(local=folder, batch_size=1, tokenizer_name=tokenizer, max_seq_len=3, group_method="concat")


def test_only_masked_tokens_have_labels(tmp_path):
    from forebay.streaming.text import StreamingEnWiki

    def i32(*numbers):
        return np.array(numbers, np.int32).tobytes()

    sample = {
        "input_ids": i32(5, 103, 7, 0),
        "input_mask": i32(1, 1, 1, 0),
        "segment_ids": i32(0, 0, 1, 0),
        "masked_lm_positions": i32(1),
        "masked_lm_ids": i32(6),
        "masked_lm_weights": np.ones(1, np.float32).tobytes(),
        "next_sentence_labels": i32(0),
    }
    found = StreamingEnWiki(local=write(tmp_path, dict.fromkeys(sample, "bytes"), [sample]), batch_size=1)[0]
    assert found["labels"].tolist() == [-100, 6, -100, -100] and found["labels"].dtype == np.int64
    assert found["input_ids"].tolist() == [5, 103, 7, 0] and found["input_ids"].flags.writeable
    assert found["token_type_ids"].tolist() == [0, 0, 1, 0]
    assert found["attention_mask"].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("name", ["StreamingOutsideGIWebVid", "StreamingOutsideDTWebVid"])
def test_videos_in_separate_files_are_loaded_with_their_samples(tmp_path, name):
    from forebay.streaming import multimodal

    folder = write(tmp_path / "shards", {"content_path": "str"}, [{"content_path": "000/001.mp4"}])
    (tmp_path / "remote" / "000").mkdir(parents=True)
    (tmp_path / "remote" / "000" / "001.mp4").write_bytes(b"video")
    cls = getattr(multimodal, name)
    places = {"extra_local": str(tmp_path / "local"), "extra_remote": str(tmp_path / "remote")}
    dataset = cls(local=folder, batch_size=1, **places)
    assert next(iter(dataset))["content"] == b"video"
    assert (tmp_path / "local" / "000" / "001.mp4").exists()
    assert "content" not in cls(local=folder, batch_size=1)[0]


def test_videos_in_the_shards_are_a_column(tmp_path):
    from forebay.streaming.multimodal import StreamingInsideWebVid

    folder = write(tmp_path, {"content": "bytes"}, [{"content": b"video"}])
    assert StreamingInsideWebVid(local=folder, batch_size=1)[0] == {"content": b"video"}
