#include "core/archive/zip_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "core/archive/shown_name.h"

namespace lambent::archive {
namespace {

constexpr std::string_view kEndMark = "PK\5\6";
constexpr std::string_view kEnd64Mark = "PK\6\6";
constexpr std::string_view kLocator64Mark = "PK\6\7";
constexpr std::string_view kCentralMark = "PK\1\2";
constexpr std::string_view kLocalMark = "PK\3\4";
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kLocator64Size = 20;
constexpr size_t kCentralSize = 46;
constexpr size_t kLocalSize = 30;
constexpr size_t kLongestComment = 0xffff;
constexpr uint64_t kIn64 = 0xffffffff;  // the number is in the extra field
constexpr uint64_t kCountIn64 = 0xffff;
constexpr unsigned kExtra64 = 1;

// Flags: encrypted (three ways to say so), sizes after the content, name in UTF-8.
constexpr unsigned kEncrypted = 1U << 0 | 1U << 6 | 1U << 13;
constexpr unsigned kSizesFollow = 1U << 3;
constexpr unsigned kUtf8 = 1U << 11;
constexpr unsigned kStored = 0;
constexpr unsigned kDeflated = 8;
// Makers whose entries have a Unix file type.
constexpr unsigned kUnix = 3;
constexpr unsigned kDarwin = 19;

Error bad(std::string why) { return {ErrorCode::kInvalidArgument, std::move(why)}; }

// Numbers, least byte first. Callers have checked that there are so many bytes.
uint64_t number(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
  return value;
}

bool marked(std::string_view bytes, uint64_t at, std::string_view mark) {
  return at <= bytes.size() && bytes.substr(at, mark.size()) == mark;
}

// What both kinds of header say of an entry.
struct Header {
  std::string_view name;
  unsigned flags = 0;
  unsigned method = 0;
  uint64_t sum = 0;
  uint64_t packed = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // of the central one only
  uint64_t end = 0;     // of the header in the file
};

// Takes numbers that are too large for the header from its extra field of zip64, in their order.
// False: they are not there.
bool take_from_extra(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  if (std::ranges::none_of(numbers, [](const uint64_t* each) { return *each == kIn64; })) {
    return true;
  }
  while (extra.size() >= 4) {
    const uint64_t id = number(extra, 0, 2);
    const uint64_t size = number(extra, 2, 2);
    if (extra.size() < 4 + size) return false;
    std::string_view data = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != kExtra64) continue;
    for (uint64_t* each : numbers) {
      if (*each != kIn64) continue;
      if (data.size() < 8) return false;
      *each = number(data, 0, 8);
      data.remove_prefix(8);
    }
    return true;
  }
  return false;
}

struct End {
  uint64_t entries = 0;
  uint64_t size = 0;    // of the directory
  uint64_t offset = 0;  // as it is written: without what stands before the zip
  uint64_t at = 0;      // where the directory has to end
};

Result<End> read_end64(std::string_view zip, uint64_t locator) {
  const uint64_t at = number(zip, locator + 8, 8);
  // Where it says, or right before the locator if something stands before the zip.
  uint64_t found = at;
  if (!marked(zip, at, kEnd64Mark) && locator >= kEnd64Size) found = locator - kEnd64Size;
  if (found > locator || locator - found < kEnd64Size || !marked(zip, found, kEnd64Mark)) {
    return bad("the zip's directory is not where its end says");
  }
  return End{number(zip, found + 32, 8), number(zip, found + 40, 8), number(zip, found + 48, 8),
             found};
}

Result<End> read_end(std::string_view zip) {
  const size_t from = zip.size() - std::min(zip.size(), kEndSize + kLongestComment);
  const size_t at = zip.rfind(kEndMark);
  if (at == std::string_view::npos || at < from || zip.size() - at < kEndSize) {
    return bad("the package is not a zip file");
  }
  if (at + kEndSize + number(zip, at + 20, 2) != zip.size()) {
    return bad("the zip does not end where it says: something was cut off or added");
  }
  if (number(zip, at + 4, 2) != 0 || number(zip, at + 6, 2) != 0) {
    return bad("the zip is a part of one in several files");
  }
  End end{number(zip, at + 10, 2), number(zip, at + 12, 4), number(zip, at + 16, 4), at};
  const bool counts_differ = number(zip, at + 8, 2) != end.entries;
  if (at >= kLocator64Size && marked(zip, at - kLocator64Size, kLocator64Mark)) {
    ASSIGN_OR_RETURN(const End end64, read_end64(zip, at - kLocator64Size));
    const auto same = [](uint64_t here, uint64_t there, uint64_t in_64) {
      return here == in_64 || here == there;
    };
    if (!same(end.entries, end64.entries, kCountIn64) || !same(end.size, end64.size, kIn64) ||
        !same(end.offset, end64.offset, kIn64)) {
      return bad("the zip has two ends that differ");
    }
    return end64;
  }
  if (counts_differ) return bad("the zip is a part of one in several files");
  return end;
}

std::optional<Header> read_central(std::string_view zip, uint64_t at, uint64_t end) {
  if (end - at < kCentralSize || !marked(zip, at, kCentralMark)) return std::nullopt;
  const uint64_t name = number(zip, at + 28, 2);
  const uint64_t extra = number(zip, at + 30, 2);
  const uint64_t comment = number(zip, at + 32, 2);
  Header header{.name = {},
                .flags = static_cast<unsigned>(number(zip, at + 8, 2)),
                .method = static_cast<unsigned>(number(zip, at + 10, 2)),
                .sum = number(zip, at + 16, 4),
                .packed = number(zip, at + 20, 4),
                .size = number(zip, at + 24, 4),
                .offset = number(zip, at + 42, 4),
                .end = at + kCentralSize + name + extra + comment};
  if (header.end > end) return std::nullopt;
  header.name = zip.substr(at + kCentralSize, name);
  if (!take_from_extra(zip.substr(at + kCentralSize + name, extra),
                       {&header.size, &header.packed, &header.offset})) {
    return std::nullopt;
  }
  return header;
}

std::optional<Header> read_local(std::string_view zip, uint64_t at, uint64_t end) {
  if (at > end || end - at < kLocalSize || !marked(zip, at, kLocalMark)) return std::nullopt;
  const uint64_t name = number(zip, at + 26, 2);
  const uint64_t extra = number(zip, at + 28, 2);
  Header header{.name = {},
                .flags = static_cast<unsigned>(number(zip, at + 6, 2)),
                .method = static_cast<unsigned>(number(zip, at + 8, 2)),
                .sum = number(zip, at + 14, 4),
                .packed = number(zip, at + 18, 4),
                .size = number(zip, at + 22, 4),
                .end = at + kLocalSize + name + extra};
  if (header.end > end) return std::nullopt;
  header.name = zip.substr(at + kLocalSize, name);
  if (!take_from_extra(zip.substr(at + kLocalSize + name, extra), {&header.size, &header.packed})) {
    return std::nullopt;
  }
  return header;
}

// How the local header of an entry differs from what the directory says of it; empty: it does not.
std::string difference(const Header& central, const Header& local) {
  if (central.name != local.name) {
    return "its own header calls it '" + shown_name(local.name) + "'";
  }
  if (central.method != local.method) {
    return "its own header and the directory name different methods of compression";
  }
  if (((central.flags ^ local.flags) & (kSizesFollow | kUtf8)) != 0) {
    return "its own header and the directory have different flags";
  }
  // They may be zero in the local one if they come after the content.
  const bool follow = (local.flags & kSizesFollow) != 0;
  const auto differ = [follow](uint64_t theirs, uint64_t its) {
    return theirs != its && !(follow && its == 0);
  };
  if (differ(central.size, local.size) || differ(central.packed, local.packed)) {
    return "its own header and the directory give different sizes";
  }
  if (differ(central.sum, local.sum)) {
    return "its own header and the directory give different sums";
  }
  return "";
}

std::string type_refused(std::string_view zip, uint64_t at) {
  const uint64_t maker = number(zip, at + 5, 1);
  if (maker != kUnix && maker != kDarwin) return "";
  switch (number(zip, at + 40, 2) & S_IFMT) {
    case 0:
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
      return "";
    case S_IFIFO:
      return "it is a fifo";
    case S_IFSOCK:
      return "it is a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "it is a device";
    default:
      return "it is no file, folder or symbolic link";
  }
}

std::string header_refused(const Header& central) {
  if ((central.flags & kEncrypted) != 0) return "it is encrypted";
  if (central.method != kStored && central.method != kDeflated) {
    return "it is compressed by method " + std::to_string(central.method) +
           "; only stored (0) and deflated (8) entries are taken";
  }
  if (central.method == kStored && central.size != central.packed) {
    return "it is stored, and has two sizes";
  }
  return "";
}

// Where an entry's bytes lie, header and all.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t record = 0;
};

Result<std::vector<ZipRecord>> in_order(std::vector<ZipRecord> records,
                                        std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  std::vector<ZipRecord> sorted;
  sorted.reserve(records.size());
  for (size_t i = 0; i < extents.size(); ++i) {
    ZipRecord& record = records[extents[i].record];
    if (i > 0 && extents[i].begin < extents[i - 1].end) {
      return refused_entry(record.name,
                           "it overlaps entry '" + shown_name(sorted.back().name) + "'");
    }
    sorted.push_back(std::move(record));
  }
  return sorted;
}

}  // namespace

Result<ZipDirectory> read_zip_directory(std::string_view zip, size_t most) {
  ASSIGN_OR_RETURN(const End end, read_end(zip));
  if (end.entries > most) {
    return bad("the zip has more than " + std::to_string(most) + " entries");
  }
  if (end.size > end.at || end.offset > end.at - end.size) {
    return bad("the zip's directory is not where its end says");
  }
  const uint64_t directory = end.at - end.size;
  const uint64_t before = directory - end.offset;  // what stands before the zip

  std::vector<ZipRecord> records;
  std::vector<Extent> extents;
  uint64_t at = directory;
  for (uint64_t i = 0; i < end.entries; ++i) {
    const auto central = read_central(zip, at, end.at);
    if (!central) {
      return bad("the zip says that it has " + std::to_string(end.entries) +
                 " entries, and its directory ends after " + std::to_string(i));
    }
    if (const auto why = header_refused(*central); !why.empty()) {
      return refused_entry(central->name, why);
    }
    if (const auto why = type_refused(zip, at); !why.empty()) {
      return refused_entry(central->name, why);
    }
    // Sizes and places are what a stranger says: no sum of them may wrap.
    const bool inside = central->offset < directory - before;
    const auto local = inside ? read_local(zip, before + central->offset, directory) : std::nullopt;
    if (!local || central->packed > directory - local->end) {
      return refused_entry(central->name, "it is not where the zip's directory says");
    }
    if (const auto why = difference(*central, *local); !why.empty()) {
      return refused_entry(central->name, why);
    }
    extents.push_back({before + central->offset, local->end + central->packed, records.size()});
    records.push_back({std::string(central->name), before + central->offset, central->size});
    at = central->end;
  }
  if (at != end.at) {
    return bad("the zip says that it has " + std::to_string(end.entries) +
               " entries, and its directory holds more than that");
  }
  ASSIGN_OR_RETURN(records, in_order(std::move(records), std::move(extents)));
  return ZipDirectory{std::move(records), directory};
}

}  // namespace lambent::archive
