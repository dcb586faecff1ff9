#include "bin/former_names.h"

#include <gmock/gmock.h>

namespace lambent::bin {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(FormerNames, AnOptionWorksByItsOldNameWithAWarning) {
  CLI::App app("A program");
  unsigned limit = 8;
  app.add_option("--limit", limit, "how many");
  add_former_option(app, "--most", "--limit", limit)->check(CLI::Range(1, 10));
  testing::internal::CaptureStderr();
  app.parse("--most 3");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: --most is called --limit now; the next version does not know the old name\n");
  EXPECT_EQ(limit, 3u);
  EXPECT_THAT(app.help(), Not(HasSubstr("--most")));
  EXPECT_THROW(app.parse("--most 11"), CLI::ValidationError);
}

TEST(FormerNames, AnOptionByItsPresentNameIsNotWarnedOf) {
  CLI::App app("A program");
  unsigned limit = 8;
  app.add_option("--limit", limit, "how many");
  add_former_option(app, "--most", "--limit", limit);
  testing::internal::CaptureStderr();
  app.parse("--limit 3");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(limit, 3u);
}

}  // namespace
}  // namespace lambent::bin
