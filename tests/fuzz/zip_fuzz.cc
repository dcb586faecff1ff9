// A package from a stranger: it is refused or checked, within its limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/archive/zip.h"
#include "core/archive/zip_directory.h"
#include "core/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lambent::archive::ZipLimits limits{
      .zipped = lambent::Bytes::mib(1), .unzipped = lambent::Bytes::kib(256), .entries = 64};
  const std::string_view zip(reinterpret_cast<const char*>(data), size);
  if (const auto directory = lambent::archive::read_zip_directory(zip, limits.entries);
      directory.ok()) {
    CHECK(directory->records.size() <= limits.entries, "no more records than the limit");
    for (const auto& record : directory->records)
      CHECK(record.offset < size, "a header outside of the zip");
  }
  const auto checked = lambent::archive::check_zip(zip, limits);
  if (checked.ok()) {
    CHECK(checked->entries <= limits.entries, "no more entries than the limit");
    CHECK(checked->size <= limits.unzipped, "no more bytes than the limit");
  }
  return 0;
}
