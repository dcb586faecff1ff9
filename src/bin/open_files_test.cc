#include "bin/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace lambent {
namespace {

class KeepingLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
    events.emplace_back(event);
  }
  std::vector<std::string> events;
};

TEST(OpenFiles, ClientsHaveFiveEighthsAndObjectsAQuarter) {
  EXPECT_EQ(share_of(1024).connections, 640u);
  EXPECT_EQ(share_of(1024).objects, 256u);
  EXPECT_EQ(share_of(20'000).connections, 12'500u);
  EXPECT_EQ(share_of(UINT64_MAX).connections, 16'384u);
  EXPECT_EQ(share_of(UINT64_MAX).objects, 100'000u);
}

TEST(OpenFiles, OnlyALimitThatClientsCanReachIsToldOf) {
  const auto shortage = shortage_of(20'000);
  ASSERT_TRUE(shortage.has_value());
  EXPECT_NE(shortage->find("at most 12500 of 16384 connections"), std::string::npos) << *shortage;
  EXPECT_NE(shortage->find("LimitNOFILE="), std::string::npos) << *shortage;
  EXPECT_NE(shortage_of(26'215), std::nullopt);
  EXPECT_EQ(shortage_of(26'216), std::nullopt);
  EXPECT_EQ(shortage_of(UINT64_MAX), std::nullopt);
}

[[noreturn]] void raise_from_256_to_512() {
  rlimit files{};
  files.rlim_cur = 256;
  files.rlim_max = 512;
  bool good = setrlimit(RLIMIT_NOFILE, &files) == 0;
  KeepingLog log;
  allow_many_files(log);
  good = good && open_files_limit() == 512;
  good = good && log.events.empty();
  tell_of_few_files(log);
  good = good && log.events == std::vector<std::string>{"few_open_files"};
  std::_Exit(good ? 0 : 1);
}

// In a child process: a hard limit does not come back.
TEST(OpenFilesDeathTest, TheSoftLimitIsRaisedToTheHardOneWhichIsToldOf) {
  EXPECT_EXIT(raise_from_256_to_512(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lambent
