#include "edge/cli/python_section.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "edge/cli/manifest.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

Result<Manifest> parse(const std::string& python) {
  return parse_manifest("name = \"f\"\nruntime = \"python3\"\nhandler = \"app.f\"\n" + python,
                        "lambent.toml");
}

TEST(PythonSectionTest, AListOfRequirementsIsAllThatIsNeeded) {
  const auto manifest =
      parse("[python]\nversion = \"3.11\"\nrequirements = [\"numpy>=2\", \"b\", \"b\"]\n");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  ASSERT_TRUE(manifest->python.has_value());
  EXPECT_EQ(manifest->python->packages,
            (PythonPackages{.version = "3.11", .requirements = {"b", "numpy>=2"}}));
  EXPECT_TRUE(manifest->warnings.empty());
}

TEST(PythonSectionTest, ModulesToPreloadAreTakenAlongWithAFileOfRequirements) {
  const auto folder = StagingFolder::make();
  ASSERT_TRUE(folder.ok());
  std::ofstream(folder->path() + "/r.txt") << "numpy\n";
  const auto manifest =
      parse("[python]\nrequirements = \"r.txt\"\npreload = [\"numpy\", \"numpy.fft\"]\n");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_TRUE(manifest->warnings.empty());
  const auto packages = load_python_packages(*manifest->python, folder->path());
  ASSERT_TRUE(packages.ok()) << packages.error().message;
  EXPECT_EQ(*packages,
            (PythonPackages{.requirements = {"numpy"}, .preload = {"numpy", "numpy.fft"}}));
}

TEST(PythonSectionTest, WithoutTheTableThereAreNoPackages) {
  EXPECT_FALSE(parse("")->python.has_value());
}

TEST(PythonSectionTest, MistakesNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[python]\nrequirements = [\"-e .\"]\n", "line 5: requirement '-e .'"},
      {"[python]\nrequirements = [3]\n", "line 5: python.requirements are texts"},
      {"[python]\nversion = \"3\"\nrequirements = []\n", "line 5: python.version is '3'"},
      {"[python]\nrequirements = []\npreload = \"numpy\"\n", "line 6: python.preload is a list"},
      {"[python]\nrequirements = []\npreload = [1]\n", "line 6: python.preload has names"},
      {"[python]\nrequirements = []\npreload = [\"a-b\"]\n", "line 6: preload: 'a-b' is not"},
      {"[python]\n", "line 4: [python] has requirements"},
      {"[python]\nrequirements = []\nlock = \"l\"\n", "line 4: [python] has one of"},
      {"[python]\nlock = \"uv.lock\"\n", "uv export"},
      {"python = 3\n", "line 4: python is a table"}};
  for (const auto& [text, expected] : cases) {
    const auto manifest = parse(text);
    ASSERT_FALSE(manifest.ok()) << text;
    EXPECT_EQ(manifest.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(manifest.error().message.find(expected), std::string::npos)
        << manifest.error().message;
  }
}

TEST(PythonSectionTest, AVersionByItselfIsAnInterpreterWithoutPackages) {
  const auto manifest = parse("[python]\nversion = \"3.11\"\n");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->python->packages, (PythonPackages{.version = "3.11"}));
  EXPECT_EQ(parse("[python]\npreload = [\"json\"]\n")->python->packages,
            (PythonPackages{.preload = {"json"}}));
  const auto misspelt = parse("[python]\nversion = \"3.11\"\nrequirement = [\"numpy\"]\n");
  ASSERT_FALSE(misspelt.ok());
  EXPECT_NE(misspelt.error().message.find("no key 'python.requirement'"), std::string::npos)
      << misspelt.error().message;
}

TEST(PythonSectionTest, TheTableByItselfSaysThatPythonRunsTheFunction) {
  for (const char* kind : {"kind = \"http\"\ncommand = [\"uvicorn\", \"app:app\"]\n",
                           "handler = \"app.f\"\n", "kind = \"pipeline\"\n"}) {
    const auto manifest = parse_manifest(
        "name = \"f\"\n" + std::string(kind) + "[python]\nrequirements = [\"uvicorn\"]\n", "x");
    ASSERT_TRUE(manifest.ok()) << manifest.error().message;
    EXPECT_EQ(manifest->spec.runtime_name, "python3");
    EXPECT_EQ(manifest->spec.runtime, Runtime::kPython);
  }
}

TEST(PythonSectionTest, AFunctionWithoutPythonHasNoPackages) {
  const auto other = parse_manifest(
      "name = \"f\"\nruntime = \"provided.al2023\"\n[python]\nrequirements = []\n", "x");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("x line 3: [python] is for functions with runtime = "
                                       "\"python3\", and this one has runtime = "
                                       "\"provided.al2023\""),
            std::string::npos)
      << other.error().message;
  EXPECT_FALSE(
      parse_manifest("name = \"f\"\nkind = \"kernel\"\n[python]\nrequirements = []\n", "x").ok());
}

TEST(PythonSectionTest, FilesAreReadBesideTheManifest) {
  const auto folder = StagingFolder::make();
  ASSERT_TRUE(folder.ok());
  std::ofstream(folder->path() + "/requirements.txt") << "numpy  # fast\n";
  std::ofstream(folder->path() + "/lock.txt") << "numpy==2.0\nb>1\n";
  std::ofstream(folder->path() + "/pyproject.toml")
      << "[project]\nname = \"x\"\ndependencies = [\"c>=1\", \"b\"]\n";
  PythonSection section{.requirements_file = "requirements.txt"};
  EXPECT_EQ(load_python_packages(section, folder->path())->requirements,
            (std::vector<std::string>{"numpy"}));
  section = {.pyproject_file = "pyproject.toml"};
  EXPECT_EQ(load_python_packages(section, folder->path())->requirements,
            (std::vector<std::string>{"b", "c>=1"}));
  section = {.lock_file = "lock.txt"};
  const auto loose = load_python_packages(section, folder->path());
  ASSERT_FALSE(loose.ok());
  EXPECT_NE(loose.error().message.find("'b>1' names no exact version"), std::string::npos);
  section = {.requirements_file = "missing.txt"};
  EXPECT_EQ(load_python_packages(section, folder->path()).error().code, ErrorCode::kNotFound);
  for (const char* outside : {"../requirements.txt", "/etc/passwd", "a/../../b"}) {
    section = {.requirements_file = outside};
    EXPECT_EQ(load_python_packages(section, folder->path()).error().code,
              ErrorCode::kInvalidArgument)
        << outside;
  }
}

}  // namespace
}  // namespace lambent::cli
