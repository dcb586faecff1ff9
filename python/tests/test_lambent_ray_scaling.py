"""lambent.ray_scaling: how many nodes are wanted."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lambent.ray_scaling import DOWN_AFTER, UP_AFTER, Scaling  # noqa: E402


def nodes(*loads, slots=4):
    return [{"node": "n%d" % number, "slots": slots, "load": load, "home": number == 0} for number, load in enumerate(loads)]


class Wanted(unittest.TestCase):
    def test_one_more_where_more_is_to_be_done_than_there_are_places_for_a_while(self):
        scaling = Scaling(1, 4)
        self.assertEqual(scaling.wanted(nodes(5), 0), 1)
        self.assertEqual(scaling.wanted(nodes(4), UP_AFTER), 1)  # not any more
        self.assertEqual(scaling.wanted(nodes(5), 100), 1)
        self.assertEqual(scaling.wanted(nodes(5), 100 + UP_AFTER), 2)

    def test_at_most_twice_as_many_at_once_and_never_more_than_the_most(self):
        scaling = Scaling(1, 5)
        for count, wanted in ((2, 4), (3, 5), (5, 5)):
            loads = nodes(*[1000] * count)
            scaling.wanted(loads, 0)
            self.assertEqual(scaling.wanted(loads, UP_AFTER), wanted)

    def test_the_least_are_wanted_at_once(self):
        self.assertEqual(Scaling(2, 4).wanted(nodes(0), 0), 2)
        self.assertEqual(Scaling(1, 4).wanted([], 0), 1)

    def test_one_fewer_where_the_others_would_be_half_idle_for_long(self):
        scaling = Scaling(1, 4)
        self.assertEqual(scaling.wanted(nodes(1, 1, 1), 0), 3)
        self.assertEqual(scaling.wanted(nodes(1, 1, 1), DOWN_AFTER), 2)
        self.assertEqual(scaling.wanted(nodes(1, 1), DOWN_AFTER + 1), 2)
        self.assertEqual(scaling.wanted(nodes(1, 1), 2 * DOWN_AFTER + 1), 1)
        self.assertEqual(scaling.wanted(nodes(0), 10 * DOWN_AFTER), 1)
        # Not where one node would be more than half full.
        scaling.wanted(nodes(2, 1), 1000)
        self.assertEqual(scaling.wanted(nodes(2, 1), 1000 + DOWN_AFTER), 2)

    def test_the_home_stays_and_the_one_with_the_least_work_goes(self):
        self.assertEqual(Scaling.spare(nodes(0, 3, 1)), "n2")
        self.assertIsNone(Scaling.spare(nodes(0)))

    def test_none_at_all_is_refused_as_none_would_see_the_load(self):
        for most in (0, 4):
            with self.assertRaisesRegex(ValueError, "one node has to stay to see the load"):
                Scaling(0, most)

    def test_bounds_that_are_none_are_refused(self):
        for least, most in ((-1, 2), (3, 2)):
            with self.assertRaises(ValueError):
                Scaling(least, most)


if __name__ == "__main__":
    unittest.main()
