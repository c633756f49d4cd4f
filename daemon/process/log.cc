#include "daemon/process/log.h"

#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/details/file_helper.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

namespace mlxcomm {

// spdlog's own file sink cannot be reopened; this one can, under the sink's lock.
class ReopenedFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ReopenedFile(std::string path) : path_(std::move(path)), file_(OpenFile(path_)) {}

  void Reopen() {
    auto fresh = OpenFile(path_);  // Throws before anything has changed.
    const std::lock_guard lock(mutex_);
    file_ = std::move(fresh);
  }

 private:
  using File = spdlog::details::file_helper;

  static std::unique_ptr<File> OpenFile(const std::string& path) {
    auto file = std::make_unique<File>();
    file->open(path);
    return file;
  }
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    file_->write(text);
  }
  void flush_() override { file_->flush(); }

  std::string path_;
  std::unique_ptr<File> file_;
};

absl::StatusOr<Log> Log::Open(const v1::LogConfig& config, const std::string& level) {
  ReopenedFile* file = nullptr;
  try {
    spdlog::sink_ptr sink;
    if (config.file().empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    } else {
      auto made = std::make_shared<ReopenedFile>(config.file());
      file = made.get();
      sink = std::move(made);
    }
    auto logger = std::make_shared<spdlog::logger>("mlxcommd", std::move(sink));
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("log file ", config.file(), ": ", error.what(), " (set log { file })"));
  }
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug,
                                                   spdlog::level::info,  spdlog::level::warn,
                                                   spdlog::level::err,   spdlog::level::off};
  spdlog::set_level(level.empty() ? kLevels[config.level()] : spdlog::level::from_str(level));
  return Log(file);
}

absl::Status Log::Reopen() {
  if (file_ == nullptr) {
    spdlog::info("SIGHUP: there is no log file to reopen");
    return absl::OkStatus();
  }
  try {
    file_->Reopen();
    spdlog::info("log reopened");
    return absl::OkStatus();
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log goes on in the old file: ", error.what()));
  }
}

}  // namespace mlxcomm
