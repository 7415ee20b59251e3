"""What each user may have of something."""

from toolwright.core.shares import Most, Shares


def test_a_user_has_so_many_and_others_theirs():
    shares: Shares[int] = Shares(Most(of_user=2, of_nobody=1))
    shares.take(1, "ann")
    shares.take(2, "ann")
    shares.take(3, None)

    assert not shares.have_room("ann")
    assert not shares.have_room(None)
    assert shares.have_room("bob")


def test_what_is_given_back_makes_room_once():
    shares: Shares[int] = Shares(Most(of_user=1))
    shares.take(1, "ann")
    shares.take(1, "ann")
    shares.give_back(1)
    shares.give_back(1)

    assert shares.have_room("ann")
    assert (len(shares), shares.number_of("ann")) == (0, 0)
    shares.take(2, "ann")
    assert not shares.have_room("ann")


def test_a_user_has_so_many_bytes_but_one_thing_may_have_any_size():
    shares: Shares[int] = Shares(Most(bytes_of_user=10))

    assert shares.have_room("ann", 100)
    shares.take(1, "ann", 6)
    assert shares.have_room("ann", 4)
    assert not shares.have_room("ann", 5)
    assert shares.have_room("bob", 5)
