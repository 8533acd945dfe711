"""Small tokenizers of random parts, and strings that are difficult for them."""

import json
import random

import tokenizers
from tokenizers import pre_tokenizers

TEXT = [
    "the fox the dog, isn't it? 12345 and the others <|end|> x",
    "Zażółć gęślą jaźń; ÀÉÎõü ﬁ Ⅷ ½ e\u0301",
    "Съешь же ещё этих мягких французских булок",
    "漢字仮名交じり文 一二三 한국어 문장",
    "def f(x):\n\treturn {'a': [x  , 1e-5]}\r\n\n   # end   ",
    "aaa aab ab ba bab the then there",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"""
    + "\r\n"
    + r"""\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["""
    + "\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

PIECES = [
    *("the", "fox", "Fox", "FOX", "th", "e", "a", "aa", "aaa", "ab", "ba", "x", "1", "12", "12345", "½", "Ⅷ", "'s", "'LL", "'\u017f", "isn't"),
    *(" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028", "\u200b", "\ufeff", "\x00", "\x7f"),
    *(".", ",", "，", "...", "-", "_", "====", "(", ")", "$", "<", ">", "|", "#", "##", "</w>", "。", "、", "、a"),
    *("é", "e\u0301", "É", "ß", "ẞ", "İ", "ı", "ǅ", "ﬁ", "\u0301", "\u0323\u0301", "\u0301\u0323", "\u0345", "\u1100\u1161", "\u212b", "\u2126"),
    *("中文", "漢", "한국", "カナ", "か\u3099", "Привет", "ё", "مُح", "हि", "ไทย", "🤣", "👩‍👩", "\U0002f800", "\U00020000", "\U0010ffff", "\ue000"),
    *("\u2581", "\u2581\u2581", "a\u2581", "\u2581the", "Ġ", "Ġthe", "<unk>", "[UNK]", "<s>", "</s>", "<0x41>", "<0x0A>", "<0xE4>"),
    *("<|end|>", "<|", "|>", "<|end", "end|>", "<|end|><|end|>", " <|end|> ", "<|end|>\n"),
]


def of(kind, **fields):
    return {"type": kind, **fields}


def split(pattern, behavior="Isolated", invert=False):
    return of("Split", pattern={"Regex": pattern}, behavior=behavior, invert=invert)


class Maker:
    """Parts of tokenizers, drawn from a seed."""

    def __init__(self, seed):
        self.draws = random.Random(seed)

    def one(self, *values):
        return self.draws.choice(values)

    def is_true(self):
        return self.draws.random() < 0.5

    def normalizer(self, depth=0):
        bert = of(
            "BertNormalizer",
            clean_text=self.is_true(),
            handle_chinese_chars=self.is_true(),
            strip_accents=self.one(None, True, False),
            lowercase=self.is_true(),
        )
        replaced = self.one((" ", "\u2581"), (" ", ""), ("a", "bb"), ("aa", "a"), ("\u2581", " "), ("é", "e"), ("the", ""), ("''", '"'))
        pattern, content = self.one((r"\s+", " "), (r"[^a-z ]", ""), (r"a+", "b"), (r"\p{N}", "0"))
        kinds = [
            *(of(form) for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
            bert,
            of("Strip", strip_left=self.is_true(), strip_right=self.is_true()),
            of("Replace", pattern={"String": replaced[0]}, content=replaced[1]),
            of("Replace", pattern={"Regex": pattern}, content=content),
            of("Prepend", prepend=self.one("\u2581", "a", " ")),
        ]
        if depth == 0 and self.draws.random() < 0.3:
            return of("Sequence", normalizers=[self.normalizer(1) for _ in range(self.draws.randrange(4))])
        return self.one(None, *kinds) if depth == 0 else self.one(*kinds)

    def metaspace(self):
        return of(
            "Metaspace", replacement=self.one("\u2581", "\u2581", "_"), prepend_scheme=self.one("always", "first", "never"), split=self.is_true()
        )

    def byte_level(self):
        return of("ByteLevel", add_prefix_space=self.draws.random() < 0.2, trim_offsets=True, use_regex=self.is_true())

    def pre_tokenizer(self, is_of_bytes, depth=0):
        behavior = self.one(*BEHAVIORS)
        string = self.one(" ", "a", "aa", "\u2581", "the", ".")
        kinds = [
            *(of(kind) for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")),
            of("Punctuation", behavior=behavior),
            of("Digits", individual_digits=self.is_true()),
            of("CharDelimiterSplit", delimiter=self.one(" ", "a", "é")),
            of("Split", pattern={"String": string}, behavior=behavior, invert=self.is_true()),
            split(self.one(GPT2, LLAMA_3, LLAMA_3.replace("{1,3}", ""), *DEEPSEEK), self.one("Isolated", "Isolated", behavior)),
            split(self.one(GPT2, LLAMA_3, r"\w+|[^\w\s]+"), "Removed", True),
            split(self.one(r"\d", r"\s+", r"[aeiou]", r"(?<=a)b|\h", r"\p{Han}"), behavior, self.is_true()),
        ]
        if not is_of_bytes:
            kinds += [self.metaspace()] * 4
        if depth == 0 and self.draws.random() < 0.4:
            parts = [self.pre_tokenizer(is_of_bytes, 1) for _ in range(self.draws.randrange(3))]
            parts = self.one(parts, parts, [split(pattern) for pattern in DEEPSEEK])
            if not is_of_bytes:
                parts = self.one([*parts, self.metaspace()], [of("WhitespaceSplit"), self.metaspace()], parts)
            return of("Sequence", pretokenizers=[*parts, *([self.byte_level()] if is_of_bytes else [])])
        if depth == 0:
            return self.byte_level() if is_of_bytes else self.one(None, *kinds)
        return self.one(*kinds)

    def tokens(self, alphabet):
        """Characters, and parts of words with the parts that they begin with."""
        tokens = dict.fromkeys(alphabet)
        words = [piece for text in TEXT for piece in ("\u2581" + text.replace(" ", " \u2581")).split(" ")]
        for _ in range(self.one(40, 150)):
            word = self.draws.choice(words)
            start = self.draws.randrange(len(word))
            part = word[start : start + self.draws.randrange(2, 7)]
            tokens |= dict.fromkeys(part[:end] for end in range(1, len(part) + 1))
        return list(tokens)

    def merges(self, tokens, prefix="", suffix=""):
        """Pairs of tokens that make a token, in any order."""
        known, pairs = set(tokens), []
        for token in tokens:
            body = token.removeprefix(prefix)
            start = token[: len(token) - len(body)]
            pairs += [[start + body[:at], prefix + body[at:]] for at in range(1, len(body)) if body[at:] != suffix]
        pairs = [pair for pair in pairs if known.issuperset(pair)]
        self.draws.shuffle(pairs)
        return pairs

    def model(self, document):
        """Adds a model and a pre-tokenizer to the document."""
        kind = self.one("BPE", "BPE", "BPE", "WordPiece", "Unigram", "WordLevel")
        is_of_bytes = kind == "BPE" and self.is_true()
        letters = sorted({letter for text in TEXT for letter in text} | {"\u2581"})
        tokens = self.tokens(letters if self.is_true() else letters[::2])
        ends = {}
        if is_of_bytes:
            spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            parts = [spelled.pre_tokenize_str(token)[0][0] for token in tokens]
            tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + [part[:end] for part in parts for end in range(2, len(part) + 1)]
        elif kind == "BPE" and self.draws.random() < 0.2:
            ends = self.one({"prefix": "##"}, {"suffix": "</w>"}, {"prefix": "@", "suffix": "</w>"})
        special = ["<unk>", "<s>", "</s>", "<|end|>"]
        prefix = ends.get("prefix") or self.one("##", "##", "") * (kind == "WordPiece")
        tokens += [prefix + token for token in tokens] * bool(prefix)
        tokens += [token + ends["suffix"] for token in tokens] if "suffix" in ends else []
        tokens = list(dict.fromkeys([*special, *tokens]))
        vocab = {token: id for id, token in enumerate(tokens)}
        model = {"type": kind, "vocab": vocab}
        if kind == "BPE":
            model |= {"continuing_subword_prefix": ends.get("prefix"), "end_of_word_suffix": ends.get("suffix")}
            model["merges"] = self.merges(tokens, **ends)
        elif kind == "WordPiece":
            model["continuing_subword_prefix"] = prefix
        elif kind == "Unigram":
            model["vocab"] = [[token, -self.draws.randrange(1000) / 97] for token in tokens]
        document["model"] = model
        document["pre_tokenizer"] = self.pre_tokenizer(is_of_bytes)
        self.change(model, kind)

    def change(self, model, kind):
        """Changes options of a model as files of models have them."""
        if kind == "BPE":
            tokens = [f"<0x{byte:02X}>" for byte in range(256)]
            added = self.one([], [], tokens, tokens[0x20:0x80])
            for token in [*added, *self.one([], ["Ġthe", "\u2581the", "漢字", "é", "fox"])]:
                model["vocab"].setdefault(token, len(model["vocab"]))
            model |= {
                "unk_token": self.one(None, "<unk>", "<unk>", "e"),
                "fuse_unk": self.is_true(),
                "byte_fallback": self.is_true(),
                "ignore_merges": self.is_true(),
                "dropout": self.one(None, None, 0.0),
            }
            if self.is_true() and not any(" " in half for pair in model["merges"] for half in pair):
                model["merges"] = [" ".join(pair) for pair in model["merges"]]
        elif kind == "WordPiece":
            model |= {"unk_token": "<unk>", "max_input_chars_per_word": self.one(100, 5, 1)}
        elif kind == "Unigram":
            model |= {"unk_id": self.one(0, 0, 0, None, 5), "byte_fallback": self.is_true()}
            if self.is_true():
                model["vocab"] += [[f"<0x{byte:02X}>", -9.0] for byte in range(256)]
        else:
            model["unk_token"] = self.one("<unk>", "<unk>", "e")
        if self.draws.random() < 0.2:
            model.pop("type")

    def added_tokens(self):
        contents = ["<unk>", "<s>", "</s>", "<|end|>", "<|", "the", " the", "Fox", "FOX", "é", "e\u0301", "a b", "\u2581a", "ﬁ", "x", "\n", "  ", "12", "，", "aa", "ab"]
        plain = self.is_true()
        tokens = []
        for content in contents[: self.one(4, 4, 5, len(contents))]:
            if content not in contents[:4] and self.is_true():
                continue
            is_special = content in contents[:4] or self.draws.random() < 0.2
            flags = {flag: not plain and self.draws.random() < 0.15 for flag in ("single_word", "lstrip", "rstrip")}
            normalized = not is_special if self.is_true() else self.draws.random() < 0.2
            tokens.append({"id": len(tokens), "content": content, **flags, "normalized": normalized, "special": is_special})
        self.draws.shuffle(tokens)
        return tokens[: self.draws.randrange(len(tokens) + 1)]

    def post_processor(self):
        special = {token: {"id": token, "ids": [id], "tokens": [token]} for id, token in ((1, "<s>"), (2, "</s>"))}
        special["two"] = {"id": "two", "ids": [1, 2], "tokens": ["<s>", "</s>"]}
        a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}

        def pieces():
            return [{"SpecialToken": {"id": self.one("<s>", "</s>", "two"), "type_id": 0}} for _ in range(self.draws.randrange(3))]

        template = of("TemplateProcessing", single=[*pieces(), a, *pieces()], pair=[a, b], special_tokens=special)
        bytes_ = of("ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)
        ends = {"sep": ["</s>", 2], "cls": ["<s>", 1]}
        kinds = [bytes_, of("BertProcessing", **ends), of("RobertaProcessing", **ends, trim_offsets=True, add_prefix_space=True), template, template]
        if self.draws.random() < 0.2:
            return of("Sequence", processors=[bytes_, self.one(*kinds)])
        return self.one(None, *kinds)


def made(seed):
    """The `tokenizer.json` of a seed, as text."""
    maker = Maker(seed)
    document = {
        "version": "1.0",
        "truncation": maker.one(None, None, {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}),
        "padding": None,
        "added_tokens": [],
        "normalizer": maker.normalizer(),
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
    }
    if maker.draws.random() < 0.2:
        fixed = {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
        document["padding"] = fixed
    maker.model(document)
    # `tokenizers` does not end a search for a token that its normalizer makes empty.
    normalizer = tokenizers.Tokenizer.from_str(json.dumps(document)).normalizer
    document["added_tokens"] = [
        token for token in maker.added_tokens() if normalizer is None or not token["normalized"] or normalizer.normalize_str(token["content"])
    ]
    document["post_processor"] = maker.post_processor()
    return json.dumps(document, ensure_ascii=False)


def strings(seed, count):
    """Strings of difficult pieces, some with any characters."""
    draws = random.Random(seed)
    fixed = ["", *PIECES]
    yield from fixed[:count]
    for _ in range(count - len(fixed)):
        few = draws.sample(PIECES, draws.randrange(1, 8)) if draws.random() < 0.5 else PIECES
        text = "".join(draws.choices(few, k=draws.randrange(1, 12)))
        if draws.random() < 0.1:
            text += chr(draws.choice([draws.randrange(0x3000), draws.randrange(0xD800), draws.randrange(0xE000, 0x110000)]))
        yield text * (40 if draws.random() < 0.02 else 1)
