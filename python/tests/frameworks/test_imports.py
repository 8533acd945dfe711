"""Each framework works alone, and one that is missing is an error with the command to install it."""

import pytest
from loaders import alone

FRAMEWORKS = ("torch", "jax", "tensorflow", "numpy")

CODE = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Blocker())
    import forebay as fb

    def load(**kwargs):
        with fb.Loader(local={folder!r}, batch_size=50, fields={{"n": fb.Scalar("number")}}, **kwargs) as loader:
            return [type(batch["n"]).__module__.partition(".")[0] for batch in loader]
"""


def run(folder, blocked, code):
    done = alone(CODE.format(blocked=set(blocked), folder=folder) + code, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("framework", "module"), [("jax", "jaxlib"), ("tensorflow", "tensorflow")])
def test_a_framework_works_alone(pictures, framework, module):
    pytest.importorskip(framework)
    # JAX and TensorFlow themselves need numpy, and TensorFlow Keras.
    blocked = {"torch", "jax", "tensorflow"} - {framework}
    out = run(pictures, blocked, f"""
    print(set(load(framework={framework!r})))
    """)
    assert out.strip() == f"{{{module!r}}}"


def test_numpy_works_alone(pictures):
    out = run(pictures, {"torch", "jax", "tensorflow", "ml_dtypes"}, """
    print(set(load(framework="numpy")))
    """)
    assert out.strip() == "{'numpy'}"


def test_the_default_without_torch_names_the_package_to_install_and_the_alternatives(pictures):
    out = run(pictures, {"torch", "jax", "tensorflow"}, """
    try:
        load()
    except fb.UnsupportedError as error:
        print(error)
    """)
    assert out.strip() == (
        'framework is "torch", which is the default, but it is not installed: pip install torch, or pass a framework that is '
        'installed: "numpy"'
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_missing_framework_is_an_error_with_the_command(pictures, framework):
    out = run(pictures, FRAMEWORKS, f"""
    try:
        load(framework={framework!r})
    except fb.UnsupportedError as error:
        print(error)
    """)
    assert out.startswith(f'framework is "{framework}"') and out.endswith(f"it is not installed: pip install {framework}\n")
