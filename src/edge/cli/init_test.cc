// What `lambent init` writes, and what it leaves alone.
#include "edge/cli/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "edge/cli/deploy.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Init : public testing::Test {
 protected:
  int run(const std::string& folder, const std::string& kind = "python") {
    out.str("");
    err.str("");
    return run_init(console, {.folder = folder, .kind = kind, .templates = templates});
  }
  std::string text_of(const std::string& path) { return *read_file(path, 1 << 16); }

  TemporaryFolder temporary;
  std::string templates = LAMBENT_SOURCE_DIR "/share/init";
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err};
};

TEST_F(Init, NamesAWorkerThatTakesWhatWasWritten) {
  ASSERT_EQ(run(temporary / "first", "python"), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("(with a worker: 'lambent serve')\n"));
  ASSERT_EQ(run(temporary / "second", "pipeline"), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("(with a worker: 'lambent serve --pipeline-slices all')\n"));
}

TEST_F(Init, WritesFoldersThatCanBePackedForEveryKind) {
  for (const InitKind& kind : init_kinds()) {
    const std::string folder = temporary / ("my-" + std::string(kind.name));
    ASSERT_EQ(run(folder, std::string(kind.name)), 0) << err.str();
    if (!kind.run.empty()) {  // it has no manifest
      EXPECT_THAT(text_of(folder + "/app.py"),
                  HasSubstr("lambent.App(\"my-" + std::string(kind.name)));
      continue;
    }
    EXPECT_THAT(text_of(folder + "/lambent.toml"),
                HasSubstr("name = \"my-" + std::string(kind.name)));
    // What `make` would have built.
    if (kind.name == "native") {
      fs::create_directory(folder + "/build");
      ASSERT_TRUE(write_file_atomically(folder + "/build/bootstrap", "program", false).ok());
      fs::permissions(folder + "/build/bootstrap", fs::perms(0755));
    }
    DeployOptions options{.path = folder};
    options.build_bundle = [](const std::string& source, const std::string& to) -> Result<void> {
      EXPECT_TRUE(fs::exists(source));
      fs::create_directories(to);
      return {};
    };
    const auto package = make_package(options);
    ASSERT_TRUE(package.ok()) << package.error().message;
    EXPECT_TRUE(package->manifest.warnings.empty()) << package->manifest.warnings.front();
    EXPECT_TRUE(nlohmann::json::accept(kind.event)) << kind.event;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      EXPECT_THAT(text_of(entry.path().string()), Not(HasSubstr("@NAME@"))) << entry.path();
    }
  }
}

TEST_F(Init, TellsTheCommandsThatComeNext) {
  const std::string folder = temporary / "hello";
  ASSERT_EQ(run(folder), 0);
  EXPECT_THAT(out.str(), HasSubstr("  lambent deploy " + folder +
                                   "\n  lambent invoke hello -d '{\"name\": \"Ada\"}'\n"));
  ASSERT_EQ(run(temporary / "swift", "c++"), 0);
  EXPECT_THAT(out.str(), HasSubstr("  make -C " + (temporary / "swift") + "\n  lambent deploy"));
  ASSERT_EQ(run(temporary / "shop", "app"), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("\n\n  lambent run " + (temporary / "shop") + "/app.py::greet Ada\n\n"));
  console.json = true;
  ASSERT_EQ(run(temporary / "again", "workflow"), 0);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["name"], "again");
  EXPECT_EQ(json["kind"], "workflow");
  EXPECT_EQ(json["next"].size(), 2u);
  EXPECT_THAT(json["files"], testing::Contains("split/app.py"));
}

TEST_F(Init, LeavesOutWhatPythonCompiledBesideItsTemplates) {
  const std::string copy = temporary / "templates";
  fs::copy(templates, copy, fs::copy_options::recursive);
  fs::create_directory(copy + "/python/__pycache__");
  ASSERT_TRUE(write_file_atomically(copy + "/python/__pycache__/app.pyc", "compiled", false).ok());
  templates = copy;
  ASSERT_EQ(run(temporary / "hello"), 0) << err.str();
  EXPECT_FALSE(fs::exists(temporary / "hello/__pycache__"));
}

TEST_F(Init, OverwritesNothing) {
  const std::string folder = temporary / "hello";
  fs::create_directory(folder);
  ASSERT_TRUE(write_file_atomically(folder + "/lambent.toml", "mine", false).ok());
  EXPECT_EQ(run(folder), exit_code_of(ErrorCode::kAlreadyExists));
  EXPECT_THAT(err.str(), HasSubstr("hello/lambent.toml is there already; nothing was written"));
  EXPECT_EQ(text_of(folder + "/lambent.toml"), "mine");
  EXPECT_FALSE(fs::exists(folder + "/app.py"));
}

TEST_F(Init, WritesBesideWhatIsThereOtherwise) {
  const std::string folder = temporary / "hello";
  fs::create_directory(folder);
  ASSERT_TRUE(write_file_atomically(folder + "/notes.txt", "mine", false).ok());
  EXPECT_EQ(run(folder), 0) << err.str();
  EXPECT_TRUE(fs::exists(folder + "/app.py"));
}

TEST_F(Init, TakesBackWhatItCannotFinish) {
  const std::string folder = temporary / "hello";
  fs::create_directory(folder);
  // Where the workflow wants a folder is a file: the files before it are written first.
  ASSERT_TRUE(write_file_atomically(folder + "/split", "mine", false).ok());
  EXPECT_NE(run(folder, "workflow"), 0);
  EXPECT_FALSE(fs::exists(folder + "/lambent.toml"));
  EXPECT_FALSE(fs::exists(folder + "/measure"));
  EXPECT_EQ(text_of(folder + "/split"), "mine");
}

TEST_F(Init, RefusesNamesThatNoFunctionCanHave) {
  EXPECT_EQ(run(temporary / "my function"), exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_THAT(err.str(), HasSubstr("only letters, digits"));
  EXPECT_EQ(run(""), exit_code_of(ErrorCode::kInvalidArgument));
  // The workflow's components have longer names than the workflow.
  const std::string longest(64, 'a');
  EXPECT_EQ(run(temporary / longest), 0) << err.str();
  const std::string other(64, 'b');
  EXPECT_EQ(run(temporary / other, "workflow"), exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_THAT(err.str(), HasSubstr("measure/lambent.toml"));
  EXPECT_FALSE(fs::exists(temporary / other));
}

TEST_F(Init, SaysWhichKindsThereAre) {
  EXPECT_EQ(run(temporary / "f", "kernal"), exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_THAT(err.str(), HasSubstr("python, cuda, native, kernel, workflow"));
  EXPECT_THAT(err.str(), HasSubstr("did you mean 'kernel'?"));
  EXPECT_EQ(init_kind_from("python3.11")->name, "python");
  EXPECT_EQ(init_kind_from("provided.al2023")->name, "native");
  EXPECT_EQ(init_kind_from("sdk")->name, "app");
  EXPECT_EQ(init_kind_from("java"), nullptr);
}

TEST_F(Init, SaysWhereItsTemplatesBelong) {
  templates = "";
  EXPECT_EQ(run(temporary / "f"), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err.str(), HasSubstr("share/lambent/init"));
}

}  // namespace
}  // namespace lambent::cli
