// LineReader: the lines of a text, whether it lies in memory, in a file or in a gzip file.
// Used by the readers of traces and catalogues, on the thread that reads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::workload {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The next line without its end ("\n" or "\r\n"), valid until the next call; nothing at the end.
  // OUT_OF_RANGE for a line longer than limits::kTraceLine, DATA_LOSS for a damaged gzip file.
  virtual Result<std::optional<std::string_view>> next() = 0;

  // Whether rewind() can work: not where the bytes come from a pipe.
  virtual bool can_rewind() const = 0;
  // Goes back to before the first line. From then on ABORTED, here or from next(), says that the
  // file is no longer as it was when it was opened. FAILED_PRECONDITION without can_rewind().
  virtual Result<void> rewind() = 0;
};

// What a file is told by that is read twice and holds something else the second time.
Error changed_since(const std::string& file);

// The lines of a text that outlives the reader.
std::unique_ptr<LineReader> lines_of(std::string_view text);
// A file, unpacked on the way if it is gzip; NOT_FOUND if there is none.
Result<std::unique_ptr<LineReader>> open_lines(const std::string& path);

}  // namespace lambent::workload
