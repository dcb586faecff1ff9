// put, get and lists of objects.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "core/domain/limits.h"
#include "edge/cli/objects.h"
#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;

TEST_F(Verbs, AnObjectIsPutWithItsTypeAndGotByItsName) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "x", "12345678", false).ok());
  transport.answer(response(201, R"({"object":"o.0","bytes":8})"));
  EXPECT_EQ(run_objects_put(transport, console,
                            {.file = folder / "x", .datatype = "FP32", .shape = "1,2"}),
            0);
  EXPECT_EQ(transport.requests[0].method, "POST");
  EXPECT_EQ(transport.requests[0].body, "12345678");
  EXPECT_EQ(transport.requests[0].headers.get("X-Lambent-Shape"), "1,2");
  EXPECT_EQ(out.str(), "o.0\n");
  transport.answer(response(200, "12345678", {{"x-lambent-datatype", "FP32"}}));
  EXPECT_EQ(run_objects_get(transport, console, {.id = "o.0", .output = folder / "y"}), 0);
  EXPECT_EQ(*read_file(folder / "y", 100), "12345678");
  EXPECT_THAT(err.str(), HasSubstr("FP32"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no such object"}})"));
  EXPECT_EQ(run_objects_get(transport, console, {.id = "o.1"}), 15);
}

TEST_F(Verbs, AnObjectThatIsTooLargeIsRefusedWithTheOtherWay) {
  TemporaryFolder folder;
  const std::string path = folder / "large";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, limits::kHttpObject.count + 1);
  EXPECT_EQ(run_objects_put(transport, console, {.file = path}), 21);
  EXPECT_THAT(err.str(), HasSubstr("more than the 64 MiB"));
  EXPECT_THAT(err.str(), HasSubstr("object socket"));
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Verbs, ObjectsAreListedPageAfterPageAndRemoved) {
  transport.answer(response(
      200, R"({"objects":[{"object":"a.0","state":"exists","place":"memory","datatype":"FP32",)"
           R"("shape":[2],"bytes":8,"references":0}],"next":"a.0"})"));
  transport.answer(
      response(200, R"({"objects":[{"object":"b.0","state":"expected","references":1}]})"));
  EXPECT_EQ(run_objects_ls(transport, console), 0);
  EXPECT_EQ(transport.requests[1].target, "/v1/objects?after=a.0");
  EXPECT_THAT(out.str(), HasSubstr("FP32 [2]"));
  EXPECT_THAT(out.str(), HasSubstr("expected"));
  transport.answer(response(204, ""));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"gone"}})"));
  EXPECT_EQ(run_objects_rm(transport, console, {"a.0", "c.0"}), 15);
  EXPECT_EQ(transport.requests[2].method, "DELETE");
}

TEST_F(Verbs, PagesOfObjectsThatAreNoneOfAWorkerAreRefused) {
  for (const char* strange :
       {R"({"objects":[{}],"next":5})", R"({"objects":[],"next":"a.0"})", R"({"objects":{}})"}) {
    transport.answer(response(200, strange));
    err.str("");
    EXPECT_EQ(run_objects_ls(transport, console), 23) << strange;
    EXPECT_THAT(err.str(), HasSubstr("is that a Lambent worker?"));
  }
  for (int i = 0; i < 2; ++i) {
    transport.answer(response(200, R"({"objects":[{"object":"a.0"}],"next":"a.0"})"));
  }
  EXPECT_EQ(run_objects_ls(transport, console), 23) << "the page after a.0 is that before it";
}

}  // namespace
}  // namespace lambent::cli
