#include "core/archive/code_delta.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/archive/zip.h"
#include "core/archive/zip_directory.h"
#include "core/domain/limits.h"

namespace lambent::archive {
namespace {

// A delta is kMagic and then steps to its end: one byte that says which, then numbers of eight
// bytes, the least first. It is a wire format, between nodes and command lines of two versions: its
// numbers are not those of core/base/varint.h.
//
//   kCopy  offset  length   so much of the base
//   kData  length  bytes    these
constexpr std::string_view kMagic = "lambentD";
constexpr char kCopy = 1;
constexpr char kData = 2;
constexpr size_t kNumber = 8;

Error bad(const std::string& why) { return {ErrorCode::kInvalidArgument, "delta: " + why}; }

void append_number(std::string& out, uint64_t value) {
  for (size_t i = 0; i < kNumber; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// Takes a number from the front; nothing if it is cut off.
std::optional<uint64_t> take_number(std::string_view& bytes) {
  if (bytes.size() < kNumber) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = kNumber; i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  bytes.remove_prefix(kNumber);
  return value;
}

// Where the parts begin, and the end of the last.
Result<std::vector<uint64_t>> borders_of(std::string_view zip) {
  ASSIGN_OR_RETURN(const ZipDirectory directory, read_zip_directory(zip, limits::kZipEntries));
  std::vector<uint64_t> borders{0};
  const auto add = [&](uint64_t border) {
    if (border > borders.back()) borders.push_back(border);
  };
  for (size_t i = 1; i < directory.records.size(); ++i) add(directory.records[i].offset);
  add(directory.offset);
  add(zip.size());
  return borders;
}

// Steps that are written as late as possible, so that neighbours become one.
class DeltaWriter {
 public:
  void copy(uint64_t offset, uint64_t length) {
    if (copies_ > 0 && offset == from_ + copies_) {
      copies_ += length;
      return;
    }
    flush();
    from_ = offset;
    copies_ = length;
  }
  void data(std::string_view bytes) {
    if (copies_ > 0) flush();
    data_.append(bytes);
  }
  std::string finish() {
    flush();
    return std::move(delta_);
  }

 private:
  void flush() {
    if (copies_ > 0) {
      delta_ += kCopy;
      append_number(delta_, from_);
      append_number(delta_, copies_);
    }
    if (!data_.empty()) {
      delta_ += kData;
      append_number(delta_, data_.size());
      delta_ += data_;
    }
    copies_ = 0;
    data_.clear();
  }

  std::string delta_{kMagic};
  uint64_t from_ = 0, copies_ = 0;
  std::string data_;
};

}  // namespace

Result<std::vector<CodePart>> code_parts_of(std::string_view zip) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> borders, borders_of(zip));
  std::vector<CodePart> parts;
  for (size_t i = 1; i < borders.size(); ++i) {
    const uint64_t size = borders[i] - borders[i - 1];
    parts.push_back({code_sha256(zip.substr(borders[i - 1], size)), Bytes(size)});
  }
  return parts;
}

Result<std::string> make_code_delta(std::string_view zip, const std::vector<CodePart>& base) {
  std::map<std::string_view, uint64_t> places;  // in the base, by digest
  uint64_t end = 0;
  for (const CodePart& part : base) {
    places.emplace(part.sha256, end);
    end += part.size.count;
  }
  ASSIGN_OR_RETURN(const std::vector<CodePart> parts, code_parts_of(zip));
  DeltaWriter delta;
  uint64_t at = 0;
  for (const CodePart& part : parts) {
    const auto place = places.find(part.sha256);
    if (place != places.end()) {
      delta.copy(place->second, part.size.count);
    } else {
      delta.data(zip.substr(at, part.size.count));
    }
    at += part.size.count;
  }
  return delta.finish();
}

Result<std::string> apply_code_delta(std::string_view base, std::string_view delta, Bytes most) {
  if (!delta.starts_with(kMagic)) return bad("it does not begin as one");
  delta.remove_prefix(kMagic.size());
  std::string made;
  while (!delta.empty()) {
    const char step = delta.front();
    delta.remove_prefix(1);
    if (step != kCopy && step != kData) {
      return bad("it has a step of kind " + std::to_string(static_cast<uint8_t>(step)));
    }
    const auto offset = step == kCopy ? take_number(delta) : std::optional<uint64_t>(0);
    const auto length = offset ? take_number(delta) : std::nullopt;
    if (!length) return bad("it is cut off");
    const std::string_view from = step == kCopy ? base : delta;
    if (*offset > from.size() || *length > from.size() - *offset) {
      return bad(step == kCopy ? "it copies what the code has not" : "it is cut off");
    }
    if (*length > most.count - made.size()) {
      return Error{ErrorCode::kOutOfRange,
                   "delta: it makes a package of more than " + to_string(most)};
    }
    made.append(from.substr(*offset, *length));
    if (step == kData) delta.remove_prefix(*length);
  }
  return made;
}

}  // namespace lambent::archive
