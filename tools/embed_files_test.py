"""What embed_files.py writes is what a compiler reads back, byte for byte."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from embed_files import literal, source

ALL_BYTES = bytes(range(256)) + b'"??/\\n"\x007' + "Grüße".encode()


class EmbedFiles(unittest.TestCase):
    def test_an_escape_never_swallows_the_digit_that_follows_it(self):
        self.assertEqual(literal(b"\x007"), '"\\0007"')

    def test_an_empty_file_is_an_empty_literal(self):
        self.assertEqual(literal(b""), '""')

    def test_files_come_in_the_order_of_their_names(self):
        text = source({"b.js": b"2", "a.css": b"1"})
        self.assertLess(text.index('"a.css"'), text.index('"b.js"'))

    @unittest.skipUnless(shutil.which("c++"), "there is no c++ here")
    def test_a_compiler_reads_every_byte_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "x.cc").write_text(source({"x.js": ALL_BYTES}) + """
#include <cstdio>
int main() { for (char c : lambent::dashboard::files()[0].content) std::putchar(c); }
""")
            sources = pathlib.Path(__file__).resolve().parent.parent / "src"
            subprocess.run(["c++", "-std=c++20", f"-I{sources}", str(folder / "x.cc"), "-o", str(folder / "x")], check=True)
            self.assertEqual(subprocess.run([str(folder / "x")], capture_output=True, check=True).stdout, ALL_BYTES)


if __name__ == "__main__":
    unittest.main()
