from pathlib import Path

ROOT = Path(__file__).parents[1]


def too_long(folder, most):
    return {str(path): lines for path in (ROOT / folder).rglob("*.py") if (lines := len(path.read_text().splitlines())) > most}


def test_a_file_of_the_product_answers_one_question():
    assert too_long("src", 400) == {}


def test_a_file_of_tests_stays_readable():
    assert too_long("tests", 500) == {}
