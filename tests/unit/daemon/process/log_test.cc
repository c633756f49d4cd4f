#include "daemon/process/log.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include <spdlog/spdlog.h>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::log_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A folder that is removed with the test, and a log in it.
class LogTest : public FolderTest {
 protected:
  LogTest() { config_.set_file(folder_ + "/logs/daemon.log"); }
  ~LogTest() override {
    spdlog::set_default_logger(spdlog::default_logger()->clone("none"));
    spdlog::default_logger()->sinks().clear();
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  v1::LogConfig config_;
};

TEST_F(LogTest, AppendsToItsFileFromItsLevelOn) {
  config_.set_level(v1::LogConfig::WARNING);
  for (const char* const line : {"first", "second"}) {
    ASSERT_TRUE(Log::Open(config_, "").ok());
    spdlog::info("quiet {}", line);
    spdlog::warn("loud {}", line);
  }
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("loud first"));
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("loud second"));
  EXPECT_THAT(TextOf(config_.file()), Not(HasSubstr("quiet")));
}

TEST_F(LogTest, CommandLineLevelOverridesTheConfigurations) {
  ASSERT_TRUE(Log::Open(config_, "error").ok());
  spdlog::warn("quiet");
  spdlog::error("loud");
  EXPECT_THAT(TextOf(config_.file()), Not(HasSubstr("quiet")));
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("loud"));
}

// Why: any process can send what libprotobuf complains about on standard error.
TEST_F(LogTest, IncludesMessagesOfLibraries) {
  ASSERT_TRUE(Log::Open(config_, "").ok());
  testing::internal::CaptureStderr();
  EXPECT_FALSE(v1::FlightRecordRequest().ParseFromString("\x0a\x01\xff"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("[error] library: "));
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("UTF-8"));
}

TEST_F(LogTest, ReportsOmittedLinesOfAFlood) {
  ASSERT_TRUE(Log::Open(config_, "debug").ok());
  for (int i = 0; i < 1000; ++i) spdlog::warn("user ann: refused {}", std::string(200, 'x'));
  EXPECT_LT(TextOf(config_.file()).size(), 40'000U);
  for (int i = 0; i < 1000; ++i) spdlog::debug("user ann: what is asked for, {}", i);
  spdlog::warn("user bob: refused");
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("what is asked for, 999"));
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("user bob: refused"));
}

// Why: log rotation moves the file aside and asks for a new one. Other threads log at the same
// time, and no line may be lost or torn.
TEST_F(LogTest, ContinuesInANewFileAfterRotation) {
  constexpr int kLines = 2000;
  auto log = Log::Open(config_, "debug");
  ASSERT_TRUE(log.ok());
  std::thread writer([] {  // At a level without a limit.
    for (int i = 0; i < kLines; ++i) spdlog::debug("line {} ends", i);
  });
  std::string all;
  for (int i = 0; i < 5; ++i) {
    const std::string aside = config_.file() + "." + std::to_string(i);
    std::filesystem::rename(config_.file(), aside);
    EXPECT_TRUE(log->Reopen().ok());
  }
  writer.join();
  for (int i = 0; i < 5; ++i) all += TextOf(config_.file() + "." + std::to_string(i));
  EXPECT_THAT(TextOf(config_.file()), HasSubstr("log reopened"));
  all += TextOf(config_.file());
  for (int i = 0; i < kLines; ++i) {
    ASSERT_THAT(all, HasSubstr("line " + std::to_string(i) + " ends\n"));
  }
}

// How: a file replaces the folder, so that no log can be created in it.
TEST_F(LogTest, StaysInTheOldFileIfANewOneCannotBeCreated) {
  auto log = Log::Open(config_, "");
  ASSERT_TRUE(log.ok());
  std::filesystem::rename(folder_ + "/logs", folder_ + "/old");
  std::ofstream(folder_ + "/logs") << "in the way";
  EXPECT_THAT(std::string(log->Reopen().message()), HasSubstr("continues in the old file"));
  spdlog::info("still here");
  EXPECT_THAT(TextOf(folder_ + "/old/daemon.log"), HasSubstr("still here"));
}

TEST_F(LogTest, NamesTheFileThatItCannotWrite) {
  std::ofstream(folder_ + "/logs") << "in the way";
  const auto log = Log::Open(config_, "");
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("log file " + config_.file()));
}

}  // namespace
}  // namespace mlxcomm::log_test
