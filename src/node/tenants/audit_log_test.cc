#include "node/tenants/audit_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/base/testing/testing.h"
#include "node/catalog/testing/testing.h"

namespace lambent::tenants {
namespace {

class AuditLogTest : public testing::Test {
 protected:
  void open(unsigned most_refusals = 20, Bytes most_size = Bytes::mib(256)) {
    audit_.reset();
    audit_ = std::move(*AuditLog::open(
        {.path = path_, .most_size = most_size, .most_refusals_per_second = most_refusals}, log_,
        loop_.post()));
  }
  static AuditRecord record(const std::string& path, int status = 201, Duration at = seconds(1)) {
    return {.at = at,
            .origin = "127.0.0.1:1",
            .token = "LAMB",
            .tenant = "team",
            .method = "POST",
            .path = path,
            .status = status};
  }
  // Returns once the line is on disk.
  void append(const AuditRecord& what) {
    bool written = false;
    audit_->append(what, [&](const Result<void>& result) { written = result.ok(); });
    while (!written) loop_.run_one();
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "audit.log";
  NullLogSink log_;
  catalog::TestLoop loop_;
  std::unique_ptr<AuditLog> audit_;
};

TEST_F(AuditLogTest, ALineSaysWhoChangedWhatAndHowItEnded) {
  open();
  append(record("/v1/tenants", 201, seconds(1'700'000'000) + milliseconds(7)));
  const auto line = nlohmann::json::parse(lines().at(0));
  EXPECT_EQ(line["time"], "2023-11-14T22:13:20.007Z");
  EXPECT_EQ(line["origin"], "127.0.0.1:1");
  EXPECT_EQ(line["token"], "LAMB");
  EXPECT_EQ(line["tenant"], "team");
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], "/v1/tenants");
  EXPECT_EQ(line["status"], 201);
}

TEST_F(AuditLogTest, ItsChainGoesOnAfterARestart) {
  open();
  append(record("/1"));
  append(record("/2"));
  open();
  append(record("/3"));
  EXPECT_EQ(lines().size(), 3u);
  EXPECT_FALSE(check_lines(lines()).broken.has_value());
}

TEST_F(AuditLogTest, ALineThatWasChangedOrTakenOutIsNoticed) {
  open();
  for (const char* path : {"/1", "/2", "/3"}) append(record(path));
  auto changed = lines();
  changed[1].replace(changed[1].find("/2"), 2, "/9");
  EXPECT_EQ(check_lines(changed).broken, 3u);
  auto shortened = lines();
  shortened.erase(shortened.begin() + 1);
  EXPECT_EQ(check_lines(shortened).broken, 2u);
  shortened = lines();
  shortened.erase(shortened.begin());
  EXPECT_EQ(check_lines(shortened).broken, 1u);
}

TEST_F(AuditLogTest, ALineThatACrashCutOffHarmsNoOther) {
  open();
  append(record("/1"));
  audit_.reset();
  std::ofstream(path_, std::ios::app) << R"({"time":"20)";
  open();
  append(record("/2"));
  EXPECT_EQ(lines().size(), 3u);
  EXPECT_FALSE(check_lines(lines()).broken.has_value());
  EXPECT_EQ(check_lines(lines()).foreign, std::vector<size_t>{2});
}

// A disk that is full is a limit on the size of files.
TEST_F(AuditLogTest, ALineThatTheDiskDoesNotTakeIsAnErrorAndIsWrittenWithTheNext) {
  open();
  append(record("/1"));
  const auto size = std::filesystem::file_size(path_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{size + 20, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  std::optional<Result<void>> told;
  audit_->append(record("/2"), [&](const Result<void>& result) { told = result; });
  while (!told) loop_.run_one();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(told->ok());
  EXPECT_EQ(std::filesystem::file_size(path_), size) << "no half line stays";
  append(record("/3"));
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines()[1])["path"], "/2");
  EXPECT_FALSE(check_lines(lines()).broken.has_value());
}

TEST_F(AuditLogTest, RefusalsAboveTheBoundAreCounted) {
  open(2);
  for (int i = 0; i < 10; ++i) audit_->append(record("/x", 401), [](const Result<void>&) {});
  append(record("/y"));
  audit_.reset();
  uint64_t counted = 0;
  size_t refusals = 0;
  for (const std::string& text : lines()) {
    const auto line = nlohmann::json::parse(text);
    refusals += line["status"] == 401;
    counted += line.value("refusals_not_written", uint64_t{0});
  }
  EXPECT_EQ(refusals, 2u);
  EXPECT_EQ(counted, 8u);
  EXPECT_FALSE(check_lines(lines()).broken.has_value());
}

TEST_F(AuditLogTest, AFileThatIsFullIsKeptBesideTheNewOne) {
  open();
  append(record("/1"));
  open(20, Bytes(10));
  append(record("/2"));
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_TRUE(std::ifstream(path_ + ".1").good());
}

TEST_F(AuditLogTest, HostileTextStaysInItsLine) {
  open();
  append(record("/a\nb\"c\xff" + std::string(10'000, 'x')));
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_LT(lines()[0].size(), 2'000u);
  EXPECT_TRUE(nlohmann::json::accept(lines()[0]));
}

}  // namespace
}  // namespace lambent::tenants
