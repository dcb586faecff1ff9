#include "core/base/message_archive.h"

#include <gtest/gtest.h>

#include <limits>

namespace lambent {
namespace {

// What `describe(archive, value)` writes of a value.
template <typename T, typename Describe>
std::string written(T value, Describe describe) {
  std::string bytes;
  StateArchive archive(&bytes);
  describe(archive, value);
  return bytes;
}

// What `describe(archive, value)` reads; nothing if it refuses the bytes or leaves some.
template <typename T, typename Describe>
std::optional<T> read(std::string_view bytes, Describe describe) {
  StateArchive archive(bytes);
  T value{};
  describe(archive, value);
  return archive.complete() ? std::optional<T>(value) : std::nullopt;
}

const auto kNumber = [](StateArchive& archive, auto& value) { archive.field(value); };
const auto kSigned = [](StateArchive& archive, auto& value) { archive_signed(archive, value); };
const auto kText = [](StateArchive& archive, std::string& text) { archive_text(archive, text, 3); };
const auto kMap = [](StateArchive& archive, std::map<std::string, std::string>& map) {
  archive_map(archive, map);
};
const auto kNumbers = [](StateArchive& archive, std::vector<uint64_t>& numbers) {
  archive_list(archive, numbers, 2, [&archive](uint64_t& number) { archive.field(number); });
};
const auto kPercent = [](StateArchive& archive, uint8_t& value) {
  archive_at_most<uint8_t>(archive, value, 100);
};

TEST(StateArchive, ReadsANumberInItsShortestFormOnly) {
  EXPECT_EQ(read<uint64_t>(std::string("\x05", 1), kNumber), 5U);
  EXPECT_EQ(read<uint64_t>(std::string("\x85\x00", 2), kNumber), std::nullopt);
  EXPECT_EQ(read<uint64_t>(std::string("\x80\x80\x00", 3), kNumber), std::nullopt);
  for (const uint64_t number : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) {
    EXPECT_EQ(read<uint64_t>(written(number, kNumber), kNumber), number);
  }
}

TEST(ArchiveText, CutsWhatIsTooLongAndRefusesToReadIt) {
  EXPECT_EQ(read<std::string>(written<std::string>("abc", kText), kText), "abc");
  EXPECT_EQ(read<std::string>(written<std::string>("abcd", kText), kText), "abc");
  EXPECT_EQ(read<std::string>(written<std::string>("abcd", kNumber), kText), std::nullopt);
}

TEST(ArchiveSigned, KeepsEveryNumberAndRefusesOneThatIsTooGreat) {
  using Limits = std::numeric_limits<int32_t>;
  for (const int32_t number : {0, -1, 7, Limits::min(), Limits::max()}) {
    EXPECT_EQ(read<int32_t>(written(number, kSigned), kSigned), number);
  }
  EXPECT_EQ(read<int32_t>(written<int64_t>(int64_t{Limits::max()} + 1, kSigned), kSigned),
            std::nullopt);
  EXPECT_EQ(read<int32_t>(written<int64_t>(int64_t{Limits::min()} - 1, kSigned), kSigned),
            std::nullopt);
}

TEST(ArchiveAtMost, LowersWhatIsTooGreatAndRefusesToReadIt) {
  EXPECT_EQ(read<uint8_t>(written<uint8_t>(100, kPercent), kPercent), 100);
  EXPECT_EQ(read<uint8_t>(written<uint8_t>(101, kPercent), kPercent), 100);
  EXPECT_EQ(read<uint8_t>(written<uint8_t>(101, kNumber), kPercent), std::nullopt);
}

TEST(ArchiveList, LeavesOutWhatIsTooManyAndRefusesToReadIt) {
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(read<Numbers>(written(Numbers{1, 2}, kNumbers), kNumbers), (Numbers{1, 2}));
  EXPECT_EQ(read<Numbers>(written(Numbers{1, 2, 3}, kNumbers), kNumbers), (Numbers{1, 2}));
  const auto unbounded = [](StateArchive& archive, Numbers& numbers) { archive.list(numbers); };
  EXPECT_EQ(read<Numbers>(written(Numbers{1, 2, 3}, unbounded), kNumbers), std::nullopt);
}

TEST(ArchiveList, StopsAtTheFirstElementThatCannotBeRead) {
  StateArchive archive(std::string_view("\x05\x01\xff\xff\xff\xff", 6));
  std::vector<uint64_t> numbers;
  archive_list(archive, numbers, 9, [&](uint64_t& number) { archive.field(number); });
  EXPECT_FALSE(archive.ok());
  EXPECT_EQ(numbers.size(), 2U);
}

TEST(ArchiveMap, KeepsItsEntriesAndRefusesAKeyTwice) {
  using Map = std::map<std::string, std::string>;
  const Map map{{"", "empty"}, {"a", ""}, {"b", "2"}};
  EXPECT_EQ(read<Map>(written(map, kMap), kMap), map);
  EXPECT_EQ(read<Map>(std::string("\x01\x01"
                                  "a\x01"
                                  "1",
                                  5),
                      kMap),
            (Map{{"a", "1"}}));
  EXPECT_EQ(read<Map>(std::string("\x02\x01"
                                  "a\x01"
                                  "1\x01"
                                  "a\x01"
                                  "2",
                                  9),
                      kMap),
            std::nullopt);
  EXPECT_EQ(read<Map>(std::string("\x7f\x01"
                                  "a\x01"
                                  "1",
                                  5),
                      kMap),
            std::nullopt);
}

TEST(ArchiveOptional, IsThereOrNot) {
  const auto describe = [](StateArchive& archive, std::optional<int64_t>& value) {
    archive_optional(archive, value, [&](int64_t& number) { archive_signed(archive, number); });
  };
  using Value = std::optional<int64_t>;
  EXPECT_EQ(read<Value>(written(Value(-5), describe), describe).value_or(Value(7)), Value(-5));
  EXPECT_EQ(read<Value>(written(Value(), describe), describe).value_or(Value(7)), Value());
  EXPECT_FALSE(read<Value>(std::string("\x02\x01", 2), describe).has_value());
}

TEST(ArchiveKind, ReadsTheKindThatWasWrittenAndRefusesOneThatDoesNotExist) {
  using Message = std::variant<uint32_t, std::string, bool>;
  const auto describe = [](StateArchive& archive, Message& message) {
    archive_kind(archive, message, [&archive](auto& body) { archive.field(body); });
  };
  for (const Message& message : {Message(7U), Message("text"), Message(true)}) {
    EXPECT_EQ(read<Message>(written(message, describe), describe), message);
  }
  EXPECT_EQ(read<Message>(std::string("\x03\x01", 2), describe), std::nullopt);
}

}  // namespace
}  // namespace lambent
