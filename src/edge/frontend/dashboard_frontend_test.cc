#include "edge/frontend/dashboard_frontend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using testing::HasSubstr;
using testing::Not;

http::Response get(const std::string& target,
                   const std::vector<std::pair<std::string, std::string>>& headers = {},
                   const std::string& method = "GET") {
  return DashboardFrontend().answer(request_of(method, target, "", headers));
}

TEST(DashboardFrontend, ServesThePageAndItsFiles) {
  EXPECT_THAT(get("/").body, HasSubstr("<main"));
  EXPECT_EQ(get("/dashboard/").body, get("/").body);
  EXPECT_EQ(std::string(get("/").headers.get("content-type")), "text/html; charset=utf-8");
  EXPECT_EQ(std::string(get("/dashboard/app.js").headers.get("content-type")),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/dashboard/none.js").status, 404);
  EXPECT_EQ(get("/dashboard/../etc/passwd").status, 404);
  EXPECT_EQ(get("/", {}, "POST").status, 405);
}

TEST(DashboardFrontend, LetsThePageRunAndLoadItsOwnFilesOnly) {
  for (const dashboard::File& file : dashboard::files()) {
    const auto answer = get("/dashboard/" + std::string(file.name));
    const std::string policy(answer.headers.get("content-security-policy"));
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("script-src 'self';"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(std::string(answer.headers.get("x-frame-options")), "DENY");
    EXPECT_EQ(std::string(answer.headers.get("x-content-type-options")), "nosniff");
  }
}

TEST(DashboardFrontend, SaysThatTheClientHasTheFileAsItIs) {
  const std::string etag(get("/dashboard/app.js").headers.get("etag"));
  ASSERT_FALSE(etag.empty());
  const auto same = get("/dashboard/app.js", {{"If-None-Match", etag}});
  EXPECT_EQ(same.status, 304);
  EXPECT_TRUE(same.body.empty());
  EXPECT_EQ(get("/dashboard/app.js", {{"If-None-Match", "\"other\""}}).status, 200);
}

// What no policy would stop: text as markup, and what is fetched from elsewhere.
TEST(DashboardFrontend, HasNoFileThatMakesMarkupOfTextOrNamesAnotherHost) {
  for (const dashboard::File& file : dashboard::files()) {
    const std::string content(file.content);
    for (const char* risky : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                              "eval(", "new Function", " style=\"", "onclick=\"", "https://"}) {
      EXPECT_THAT(content, Not(HasSubstr(risky))) << file.name;
    }
    if (file.name == "icon.svg" || file.name == "dom.js") continue;  // the name of SVG
    EXPECT_THAT(content, Not(HasSubstr("http://"))) << file.name;
  }
}

}  // namespace
}  // namespace lambent::frontend
