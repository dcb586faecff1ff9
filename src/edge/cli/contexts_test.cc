#include "edge/cli/contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/fd.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class ContextsTest : public testing::Test {
 protected:
  ContextsTest() {
    std::string pattern = testing::TempDir() + "/contexts-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/below/config.toml";
  }
  ~ContextsTest() override { std::filesystem::remove_all(folder_); }

  mode_t mode() const {
    struct stat about {};
    EXPECT_EQ(stat(path_.c_str(), &about), 0);
    return about.st_mode & 0777;
  }

  std::string folder_, path_;
  std::ostringstream out_, err_;
  Console console_{out_, err_};
};

TEST_F(ContextsTest, TheFirstBecomesTheCurrentOneAndOnlyItsOwnerReadsTheFile) {
  EXPECT_EQ(run_config_set(console_, path_, "prod",
                           {.endpoint = "https://gpu.example:1", .token = "lambent_secret"}),
            0);
  EXPECT_EQ(run_config_set(console_, path_, "lab", {.endpoint = "unix:/run/x.sock"}), 0);
  EXPECT_EQ(mode(), 0600u);
  const auto contexts = read_contexts(path_);
  ASSERT_TRUE(contexts.ok());
  EXPECT_EQ(contexts->current, "prod");
  EXPECT_EQ(choose(*contexts, "")->value().token, "lambent_secret");
  EXPECT_EQ(choose(*contexts, "lab")->value().endpoint, "unix:/run/x.sock");
}

TEST_F(ContextsTest, SettingAgainChangesOnlyWhatIsSaid) {
  run_config_set(console_, path_, "prod", {.endpoint = "http://a:1", .token = "lambent_t"});
  EXPECT_EQ(run_config_set(console_, path_, "prod", {.tenant = "vision"}), 0);
  const Context context = *choose(*read_contexts(path_), "prod").value();
  EXPECT_EQ(context, (Context{.endpoint = "http://a:1", .token = "lambent_t", .tenant = "vision"}));
}

TEST_F(ContextsTest, NoTokenIsEverShown) {
  run_config_set(console_, path_, "prod", {.endpoint = "http://a:1", .token = "lambent_secret"});
  EXPECT_EQ(run_config_ls(console_, path_), 0);
  console_.json = true;
  EXPECT_EQ(run_config_ls(console_, path_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("kept"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("secret")));
  // Nor by an error about a file that is no TOML.
  const auto bad = contexts_in("token = lambent_secret\n", "config.toml");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.error().message, HasSubstr("config.toml:1:"));
  EXPECT_THAT(bad.error().message, Not(HasSubstr("secret")));
}

TEST_F(ContextsTest, AFileThatOthersCanReadIsRefusedWithItsRemedy) {
  run_config_set(console_, path_, "prod", {.endpoint = "http://a:1"});
  chmod(path_.c_str(), 0640);
  EXPECT_EQ(run_config_ls(console_, path_), 19);
  EXPECT_THAT(err_.str(), HasSubstr("chmod 600 " + path_));
}

TEST_F(ContextsTest, WhatIsWrongIsSaidAndChangesNothing) {
  EXPECT_EQ(run_config_set(console_, path_, "prod", {.token = "lambent_t"}), 13);
  EXPECT_THAT(err_.str(), HasSubstr("needs --endpoint"));
  EXPECT_EQ(run_config_set(console_, path_, "a b", {.endpoint = "http://a:1"}), 13);
  EXPECT_EQ(run_config_set(console_, path_, "prod", {.endpoint = "ftp://a"}), 13);
  EXPECT_FALSE(std::filesystem::exists(path_));
  run_config_set(console_, path_, "prod", {.endpoint = "http://a:1"});
  EXPECT_EQ(run_config_use(console_, path_, "prof"), 15);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean 'prod'?"));
  EXPECT_EQ(run_config_rm(console_, path_, "prod"), 0);
  EXPECT_EQ(read_contexts(path_)->current, "");
}

TEST_F(ContextsTest, AsJsonAChangeSaysWhatThereIsNow) {
  console_.json = true;
  run_config_set(console_, path_, "prod", {.endpoint = "http://a:1", .token = "lambent_secret"});
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["contexts"][0]["name"], "prod");
  EXPECT_EQ(json["contexts"][0]["has_token"], true);
  EXPECT_THAT(out_.str(), Not(HasSubstr("secret")));
}

TEST(Contexts, EveryContextIsReadAsItWasWritten) {
  Contexts contexts{.current = "a.b-c"};
  contexts.named["a.b-c"] = {.endpoint = "unix:/tmp/it's \"here\"\\",
                             .token = "t",
                             .tenant = "x",
                             .authorities = "/ca",
                             .certificate = "/c",
                             .key = "/k"};
  contexts.named["other"] = {.endpoint = "http://h:1"};
  const auto again = contexts_in(text_of(contexts), "f");
  ASSERT_TRUE(again.ok()) << text_of(contexts);
  EXPECT_EQ(*again, contexts);
}

}  // namespace
}  // namespace lambent::cli
