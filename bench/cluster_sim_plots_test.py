"""cluster_sim_plots.py: the pictures of docs/internals/routing.md are those of the result that the page names."""
import json
import pathlib
import re
import unittest

import cluster_sim_plots as plots

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/internals/routing.md"


class Pictures(unittest.TestCase):
    def test_the_page_shows_what_the_script_draws_of_its_result(self):
        shown = re.findall(r"\]\(\.\./results/plots/(cluster-[a-z0-9-]+)\.svg\)", PAGE.read_text())
        result = json.loads((ROOT / "docs/results" / re.search(r"results/(\S*?-cluster-sim\.json)", PAGE.read_text())[1]).read_text())["result"]
        pictures = plots.draw(result)
        self.assertEqual(sorted(shown), sorted(pictures))
        for name, picture in pictures.items():
            self.assertEqual((ROOT / f"docs/results/plots/{name}.svg").read_text(), picture, name)

    def test_clusters_of_the_streambox_paper_have_a_line_for_each_system_and_each_policy(self):
        goodputs = {"1": 10.0, "4": 40.0, "8": 80.0}
        result = {"systems": {name: {"mean_goodput_per_s": goodputs} for name in plots.SYSTEMS},
                  "ours_by_policy": {name: {"1": 10.0, "4": 30.0, "8": 50.0} for name in plots.COLOURS}}
        pictures = plots.draw(result)
        self.assertEqual(sorted(pictures), ["streambox-cluster", "streambox-cluster-policies"])
        for picture, names in ((pictures["streambox-cluster"], plots.SYSTEMS), (pictures["streambox-cluster-policies"], plots.COLOURS)):
            lines = re.findall(r'<polyline points="([^"]*)" stroke="([^"]*)"', picture)
            self.assertEqual([colour for _, colour in lines], list(names.values()))
            self.assertTrue(all(len(points.split()) == 3 for points, _ in lines))
            self.assertIn("nodes of 4 GPUs", picture)

    def test_a_line_has_a_point_for_each_number_of_nodes_and_goes_up_with_its_values(self):
        row = {"case": "size", "policy": "random", "p99_s": 1, "cold": 0.5, "forwarded": 0.5}
        result = {"simulated": [{**row, "nodes": nodes, "mean_s": nodes} for nodes in (3, 30, 300)] + [{**row, "case": "other", "nodes": 5}],
                  "decisions": [{"policy": "random", "nodes": nodes, "ns": 10 * nodes} for nodes in (3, 300)]}
        lines = {policy: [] for policy in plots.COLOURS}
        lines["random"] = [(each["nodes"], each["mean_s"]) for each in result["simulated"] if each["case"] == "size"]
        drawn = plots.chart("a < b", "s", {"random": lines["random"]}, True)
        points = re.search(r'points="([^"]*)"', drawn)[1].split()
        heights = [float(point.split(",")[1]) for point in points]
        self.assertEqual(len(points), 3)
        self.assertEqual(heights, sorted(heights, reverse=True))
        self.assertIn("a &lt; b", drawn)


if __name__ == "__main__":
    unittest.main()
