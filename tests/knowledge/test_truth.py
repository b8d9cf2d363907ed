from firstfault.knowledge.truth import and_, not_, or_


def test_unknown_is_not_false():
    assert not_(None) is None
    assert not_(True) is False
    assert not_(False) is True


def test_and_is_false_as_soon_as_one_is_false():
    assert and_([None, False]) is False
    assert and_([True, None]) is None
    assert and_([True, True]) is True
    assert and_([]) is True


def test_or_is_true_as_soon_as_one_is_true():
    assert or_([None, True]) is True
    assert or_([False, None]) is None
    assert or_([False, False]) is False
    assert or_([]) is False
