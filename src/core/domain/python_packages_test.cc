#include "core/domain/python_packages.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

const std::string kDigest(64, 'a');

TEST(PythonPackagesTest, RequirementsAreNamesVersionsMarkersAndHashes) {
  for (const std::string& good :
       {std::string("numpy"), std::string("numpy>=2,<3"), std::string("numpy == 2.*"),
        std::string("uvicorn[standard,http2]~=0.30"), std::string("a.b_c-d!=1.0+cpu"),
        std::string("x>=1 ; python_version < '3.12' and sys_platform == \"linux\""),
        "numpy==2.4.6 --hash=sha256:" + kDigest + " --hash=sha256:" + kDigest}) {
    const auto read = read_requirement("  " + good + "\t");
    ASSERT_TRUE(read.ok()) << good << ": " << read.error().message;
    EXPECT_EQ(*read, good);
  }
}

TEST(PythonPackagesTest, PlacesAndOptionsAreRefused) {
  for (const std::string bad : {"",
                                "-e .",
                                "--index-url http://10.0.0.1/",
                                "-r other.txt",
                                "numpy --index-url http://x",
                                "numpy -i x",
                                "numpy==1 --no-binary :all:",
                                "numpy @ file:///etc/passwd",
                                "numpy@http://169.254.169.254/",
                                "./numpy",
                                "/etc/passwd",
                                "../x",
                                "numpy.whl",
                                "numpy-1.0-py3-none-any.whl",
                                "a/b",
                                "git+https://x/y",
                                "https://x/y.whl",
                                "numpy[a",
                                "numpy[a;b]",
                                "numpy>=1;x@y",
                                "numpy\n--index-url=x",
                                "numpy ${HOME}",
                                "n\xC3\xBC",
                                "numpy --hash=sha256:abc",
                                "numpy --hash=md5:00",
                                ".numpy",
                                "numpy-",
                                "numpy latest",
                                "numpy>=1\\"}) {
    const auto read = read_requirement(bad);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(PythonPackagesTest, AFileHasCommentsAndContinuedLines) {
  const auto read = read_requirements_file(
      "# made by a tool\nzlib-ng\r\n\nnumpy==1 \\\n    --hash=sha256:" + kDigest +
      "  # via x\nnumpy==1 --hash=sha256:" + kDigest);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, (std::vector<std::string>{"numpy==1 --hash=sha256:" + kDigest, "zlib-ng"}));
}

TEST(PythonPackagesTest, AFilesErrorNamesTheLine) {
  const auto read = read_requirements_file("numpy\n\n-e .\n");
  ASSERT_FALSE(read.ok());
  EXPECT_TRUE(read.error().message.starts_with("line 3: ")) << read.error().message;
  EXPECT_NE(read.error().message.find("--no-emit-project"), std::string::npos);
}

TEST(PythonPackagesTest, TooManyRequirementsAreRefused) {
  std::vector<std::string> many;
  for (size_t i = 0; i < kMostRequirements; ++i) many.push_back("p" + std::to_string(i));
  EXPECT_TRUE(sorted_requirements(many).ok());
  many.push_back("one-more");
  EXPECT_EQ(sorted_requirements(many).error().code, ErrorCode::kResourceExhausted);
}

TEST(PythonPackagesTest, WhatIsPreloadedAreNamesOfModules) {
  EXPECT_TRUE(check_preload({"numpy", "torch.nn", "_x.y_1"}).ok());
  for (const char* bad : {"", ".", "a.", ".a", "a..b", "1a", "a.1", "a-b", "a b", "-m", "a/b"}) {
    const auto checked = check_preload({bad});
    ASSERT_FALSE(checked.ok()) << bad;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(check_preload(std::vector<std::string>(kMostPreloads + 1, "a")).error().code,
            ErrorCode::kResourceExhausted);
}

TEST(PythonPackagesTest, WhatIsWrittenIsReadAgain) {
  const PythonPackages packages{.version = "3.11",
                                .requirements = {"a", "b>1"},
                                .locked = true,
                                .preload = {"numpy", "torch.nn"}};
  const auto read = parse_python_packages(to_json(packages));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, packages);
}

TEST(PythonPackagesTest, WhatIsNoDescriptionIsRefused) {
  for (const char* bad :
       {"", "[]", "{\"version\": 3.11}", "{\"version\": \"3\"}", "{\"version\": \"../3.1\"}",
        "{\"requirements\": \"a\"}", "{\"requirements\": [1]}", "{\"requirements\": [\"-e .\"]}",
        "{\"index\": \"http://x\"}", "{\"locked\": 1}", "{\"preload\": \"numpy\"}",
        "{\"preload\": [1]}", "{\"preload\": [\"os; x\"]}"}) {
    EXPECT_FALSE(parse_python_packages(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace lambent
