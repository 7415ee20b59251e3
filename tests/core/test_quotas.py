"""Quotas of users."""

from surehand.core.quotas import Quota, QuotaLimits


def test_a_user_has_so_many_and_others_theirs():
    quota: Quota[int] = Quota(QuotaLimits(per_user=2, anonymous=1))
    quota.acquire(1, "ann")
    quota.acquire(2, "ann")
    quota.acquire(3, None)

    assert not quota.has_room("ann")
    assert not quota.has_room(None)
    assert quota.has_room("bob")


def test_what_is_given_back_makes_room_once():
    quota: Quota[int] = Quota(QuotaLimits(per_user=1))
    quota.acquire(1, "ann")
    quota.acquire(1, "ann")
    quota.release(1)
    quota.release(1)

    assert quota.has_room("ann")
    assert (len(quota), quota.count("ann")) == (0, 0)
    quota.acquire(2, "ann")
    assert not quota.has_room("ann")


def test_bytes_are_limited_per_user_but_a_single_item_may_have_any_size():
    quota: Quota[int] = Quota(QuotaLimits(bytes_per_user=10))

    assert quota.has_room("ann", 100)
    quota.acquire(1, "ann", 6)
    assert quota.has_room("ann", 4)
    assert not quota.has_room("ann", 5)
    assert quota.has_room("bob", 5)
