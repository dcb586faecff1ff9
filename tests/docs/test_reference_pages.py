"""Holds the generated pages of docs/reference against their sources."""
import re
import unittest

import reference_pages


class ReferencePages(unittest.TestCase):
    def test_they_say_what_the_sources_say(self):
        for name, text in reference_pages.pages().items():
            with self.subTest(name):
                self.assertEqual((reference_pages.REFERENCE / name).read_text(), text,
                                 "write it again: python3 tests/docs/reference_pages.py --write")

    def test_every_error_code_is_explained_and_no_other(self):
        codes = re.findall(r'ERROR_CODE\(\w+, "(\w+)"', reference_pages.read("api/error_codes.inc"))
        self.assertEqual(sorted(set(codes)), sorted(reference_pages.ERRORS))

    def test_every_metric_of_the_worker_is_listed_with_its_labels(self):
        source = "".join(reference_pages.read(each) for each in reference_pages.METRICS)
        elsewhere = [name for name, _, _ in reference_pages.families() if name.startswith(("lambent_otlp_", "nv_inference_"))]
        self.assertEqual(len(elsewhere), 9)
        self.assertEqual(len(list(reference_pages.families())) - len(elsewhere), len(re.findall(r"\bfamily<", source)))
        for path in ("src/core/telemetry/exporter.cc", "src/edge/frontend/metrics_formats.cc"):
            source += reference_pages.read(path).replace("{signal=", '"signal"').replace("{model=", '"model"').replace(",version=", '"version"')
        named = {name for name, _, _ in reference_pages.families()}
        self.assertEqual(set(reference_pages.LABELS) - named, set(), "labels of metrics that are gone")
        for name, labels in reference_pages.LABELS.items():
            for label in filter(None, labels.split(", ")):
                with self.subTest(name):
                    self.assertIn(f'"{label}"', source)

    def test_amounts_are_written_for_people(self):
        for expression, said in {"Bytes::mib(32768)": "32 GiB", "Bytes::kib(64)": "64 KiB", "Bytes(6 * 1024 * 1024)": "6 MiB",
                                 "seconds(30)": "30 s", "10'000": "10,000", "std::chrono::hours(1)": "1 h"}.items():
            self.assertEqual(reference_pages.amount(expression), said)


if __name__ == "__main__":
    unittest.main()
