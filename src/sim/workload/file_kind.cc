#include "sim/workload/file_kind.h"

namespace lambent::workload {
namespace {

// %F: the file in quotes of the shell; %T: where the table goes.
struct FileKind {
  std::string_view mark;
  std::string_view what;
};

constexpr FileKind kKinds[] = {
    {"\xFD"
     "7zXZ",
     "packed with xz: unpack it with xz -dc %F > %T"},
    {"\x28\xB5\x2F\xFD", "packed with zstd: unpack it with zstd -dc %F > %T"},
    {"BZh", "packed with bzip2: unpack it with bzip2 -dc %F > %T"},
    {"\x04\x22\x4D\x18", "packed with lz4: unpack it with lz4 -dc %F > %T"},
    {"PK\x03\x04", "a zip archive: unzip -l %F lists its files, unzip -p %F NAME > %T takes one"},
    {"Rar!\x1A\x07",
     "a rar archive: unrar lb %F lists its files, unrar p -inul %F NAME > %T "
     "takes one"},
    {"7z\xBC\xAF\x27\x1C",
     "a 7z archive: 7z l %F lists its files, 7z e -so %F NAME > %T takes one"},
    {"PAR1",
     "Parquet: write it as CSV, such as with python3 -c \"import sys, pandas; "
     "pandas.read_parquet(sys.argv[1]).to_csv(sys.argv[2], index=False)\" %F %T"},
    {"\xFF\xFE", "in UTF-16: write it in UTF-8 with iconv -f UTF-16 -t UTF-8 %F > %T"},
    {"\xFE\xFF", "in UTF-16: write it in UTF-8 with iconv -f UTF-16 -t UTF-8 %F > %T"},
    {"version https://git-lfs.github.com/spec/",
     "a pointer of Git LFS instead of the data: git lfs pull in its repository brings that"},
    {"[", "one JSON document: write a JSON object a line with jq -c '.[]' %F > trace.jsonl"},
};

// As the shell takes it whatever characters it has.
std::string in_quotes(const std::string& file) {
  std::string quoted = "'";
  for (const char c : file) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string filled(std::string_view what, const std::string& file) {
  std::string text;
  for (size_t i = 0; i < what.size(); ++i) {
    if (what[i] != '%') {
      text += what[i];
    } else if (what[++i] == 'F') {
      text += in_quotes(file);
    } else {
      text += "trace.csv";
    }
  }
  return text;
}

bool is_page(std::string_view begin) {
  while (!begin.empty() && (begin.front() == ' ' || begin.front() == '\t')) begin.remove_prefix(1);
  constexpr std::string_view kBegins[] = {"<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml"};
  for (const std::string_view each : kBegins) {
    if (begin.starts_with(each)) return true;
  }
  return false;
}

}  // namespace

std::string no_table_because(std::string_view begin, const std::string& file) {
  for (const FileKind& kind : kKinds) {
    if (begin.starts_with(kind.mark)) return "is " + filled(kind.what, file);
  }
  if (is_page(begin)) return "is a page of the web instead of the data: download it again";
  // A tar's first block: the first file's name, filled up, and the mark of POSIX.
  constexpr size_t kTarMark = 257;
  if (begin.size() > kTarMark + 5 && begin.substr(kTarMark, 5) == "ustar") {
    return "is " + filled(
                       "a tar archive: tar -tf %F lists its files, tar -xOf %F NAME > %T takes "
                       "one",
                       file);
  }
  if (begin.find('\0') != std::string_view::npos) {
    return "has bytes of zero: it is no text";
  }
  return {};
}

}  // namespace lambent::workload
