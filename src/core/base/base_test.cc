#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

namespace lambent {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
  return number / 2;
}

Result<int> quarter_of(int number) {
  ASSIGN_OR_RETURN(const int half, half_of(number));
  ASSIGN_OR_RETURN(const int quarter, half_of(half));
  return quarter;
}

TEST(Result, CarriesTheFirstErrorToTheCaller) {
  EXPECT_EQ(*quarter_of(8), 2);
  EXPECT_EQ(quarter_of(6).error().message, "odd");
}

TEST(ErrorCode, EveryCodeHasItsOwnNameAndExitCode) {
  std::set<std::string_view> names;
  std::set<int> exits;
  for (int code = 1; code <= static_cast<int>(kLastErrorCode); ++code) {
    const auto error_code = static_cast<ErrorCode>(code);
    names.insert(name_of(error_code));
    exits.insert(exit_code_of(error_code));
    EXPECT_EQ(error_code_from_name(name_of(error_code)), error_code);
  }
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(exits.size(), 17u);
  EXPECT_FALSE(error_code_from_name("NO_SUCH_CODE").has_value());
}

TEST(ErrorCode, AFullDiskHasACodeOfItsOwn) {
  const Error error = error_from_errno("write /x", ENOSPC);
  EXPECT_EQ(error.code, ErrorCode::kStorageFull);
  EXPECT_EQ(error.message, "write /x: No space left on device");
}

TEST(InvocationId, IsWrittenAndReadAsAUuid) {
  SeededRandom random(7);
  const InvocationId id = new_invocation_id(random);
  const std::string text = to_string(id);
  EXPECT_EQ(text[14], '4');
  EXPECT_EQ(invocation_id_from_string(text), id);
  EXPECT_FALSE(invocation_id_from_string("not-a-uuid").has_value());
  EXPECT_FALSE(invocation_id_from_string(text + "0").has_value());
  EXPECT_EQ(to_string(InvocationId{0x0123456789ab4cdeULL, 0x8fedcba987654321ULL}),
            "01234567-89ab-4cde-8fed-cba987654321");
}

TEST(Bytes, AreReadWithPowersOf1024) {
  EXPECT_EQ(*parse_bytes("512"), Bytes(512));
  EXPECT_EQ(*parse_bytes("2M"), Bytes::mib(2));
  EXPECT_EQ(*parse_bytes("1.5GiB"), Bytes::mib(1536));
  EXPECT_FALSE(parse_bytes("-1").ok());
  EXPECT_FALSE(parse_bytes("many").ok());
  EXPECT_FALSE(parse_bytes("1X").ok());
  EXPECT_FALSE(parse_bytes("nan").ok());
}

TEST(Bytes, SubtractionStopsAtZero) { EXPECT_EQ(Bytes(1) - Bytes(2), Bytes(0)); }

TEST(Random, TheSystemsNumbersAreFreshForever) {
  SystemRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random.next());
  EXPECT_EQ(seen.size(), 100u);
}

TEST(Random, TheSameSeedGivesTheSameNumbers) {
  SeededRandom a(42), b(42);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(a.below(10), 10u);
    EXPECT_LT(a.uniform(), 1.0);
  }
}

TEST(Utf8, IsToldFromOtherBytesAndFromCharactersThatAreCut) {
  EXPECT_TRUE(is_utf8("a\xc3\xa4\xf0\x9f\x98\x80"));
  EXPECT_FALSE(is_utf8("a\xff"));
  EXPECT_FALSE(is_utf8("a\xc3"));
  for (const auto& [text, cut] :
       std::vector<std::pair<std::string, size_t>>{{"", 0},
                                                   {"a", 0},
                                                   {"a\xc3", 1},
                                                   {"\xc3\xa4", 0},
                                                   {"a\xf0\x9f\x98", 3},
                                                   {"\xf0\x9f\x98\x80", 0},
                                                   {"\xe2\x82", 2},
                                                   {"\xff", 0},
                                                   {"\x80\x80\x80\x80", 0}}) {
    EXPECT_EQ(cut_character(text), cut) << text;
  }
}

TEST(JsonEscape, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(json_escape("a\"b\\c\n"), "a\\\"b\\\\c\\n");
  EXPECT_EQ(json_escape("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(json_escape("\xff\x01"), "\\ufffd\\u0001");
  EXPECT_EQ(json_escape("\xc0\xaf"), "\\ufffd\\ufffd");
}

TEST(FakeClock, MovesOnlyWhenTurned) {
  FakeClock clock;
  const Instant before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(seconds(3));
  EXPECT_EQ(clock.now() - before, seconds(3));
}

TEST(WriteFileAtomically, ReplacesTheFileAndRespectsTheReadLimit) {
  const std::string path = ::testing::TempDir() + "/lambent_base_test_file";
  ASSERT_TRUE(write_file_atomically(path, "one", true).ok());
  ASSERT_TRUE(write_file_atomically(path, "three", false).ok());
  EXPECT_EQ(*read_file(path, 5), "three");
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(read_file(path + ".missing", 4).error().code, ErrorCode::kNotFound);
}

TEST(WriteFileAtomically, WritesToAPipeAsItIs) {
  const std::string path =
      ::testing::TempDir() + "/lambent_base_test_pipe" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const OwnedFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(write_file_atomically(path, "one", false).ok());
  char got[8];
  EXPECT_EQ(read(reader.get(), got, sizeof(got)), 3);
  struct stat there {};
  ASSERT_EQ(stat(path.c_str(), &there), 0);
  EXPECT_TRUE(S_ISFIFO(there.st_mode)) << "it was replaced";
  unlink(path.c_str());
}

TEST(WriteFileAtomically, NamesTheFileThatTakesNoMore) {
  const auto full = write_file_atomically("/dev/full", "one", false);
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.error().message.find("/dev/full"), std::string::npos) << full.error().message;
}

TEST(Log, ASinkWantsItsLeastLevelAndAbove) {
  const SpdlogSink sink(LogFormat::kJson, LogLevel::kWarning);
  EXPECT_FALSE(sink.wants(LogLevel::kDebug));
  EXPECT_FALSE(sink.wants(LogLevel::kInfo));
  EXPECT_TRUE(sink.wants(LogLevel::kWarning));
  EXPECT_TRUE(sink.wants(LogLevel::kError));
}

}  // namespace
}  // namespace lambent
