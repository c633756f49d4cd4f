#include "daemon/process/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include <google/protobuf/message_lite.h>
#include <grpc/support/log.h>
#include <grpcpp/version_info.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/process/log_limit.h"
#include "proto/system/file_descriptor.h"
#include "proto/types/plain_text.h"

// Releases before these write their own logs; later ones log through Abseil.
#define MLXCOMM_PROTOBUF_LOGS (GOOGLE_PROTOBUF_VERSION < 4022000)
#define MLXCOMM_GRPC_LOGS (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)
#if MLXCOMM_PROTOBUF_LOGS
#include <google/protobuf/stubs/logging.h>
#endif
#if __has_include("absl/log/log_sink_registry.h")
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_sink_registry.h"
#define MLXCOMM_ABSEIL_LOGS
#endif

namespace mlxcomm {
namespace {

// Info lines of libraries are for their developers, so they become debug lines.
void Pass(std::size_t severity, std::string_view file, int line, std::string_view text) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::warn,
                                                   spdlog::level::err, spdlog::level::critical};
  spdlog::log(kLevels[severity], "library: {}:{}: {}", file.substr(file.rfind('/') + 1), line,
              MakePrintable(text));
}

#if defined(MLXCOMM_ABSEIL_LOGS)
class AbseilSink final : public absl::LogSink {
  void Send(const absl::LogEntry& entry) override {
    const std::string text(entry.text_message());
    Pass(static_cast<std::size_t>(entry.log_severity()), std::string(entry.source_basename()),
         entry.source_line(), text);
  }
};
#endif

// Libraries would otherwise print to standard error, wherever the log is.
void TakeMessagesOfLibraries() {
#if MLXCOMM_PROTOBUF_LOGS
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel level, const char* file, int line, const std::string& text) {
        Pass(static_cast<std::size_t>(level), file, line, text);
      });
#endif
#if MLXCOMM_GRPC_LOGS
  gpr_set_log_function([](gpr_log_func_args* args) {
    Pass(args->severity == GPR_LOG_SEVERITY_ERROR ? 2 : 0, args->file, args->line, args->message);
  });
#endif
#if defined(MLXCOMM_ABSEIL_LOGS)
  static AbseilSink* sink = nullptr;  // Never destroyed: other threads may log until the end.
  if (sink != nullptr) return;
  absl::InitializeLog();
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
  absl::AddLogSink(sink = new AbseilSink);
#endif
}

}  // namespace

// spdlog's own file sink cannot be reopened, and on a full disk it complains about every line. This
// one reports lost lines once on standard error, and later in the file how many were lost.
class ReopenedFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ReopenedFile(std::string path) : path_(std::move(path)), file_(OpenFile(path_)) {}

  void Reopen() {
    auto fresh = OpenFile(path_);  // May throw, so it comes first.
    const std::lock_guard lock(mutex_);
    file_ = std::move(fresh);
    begins_line_ = true;
  }

 private:
  static FileDescriptor OpenFile(const std::string& path) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) throw spdlog::spdlog_ex("cannot create its folder: " + error.message());
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (!file.valid()) throw spdlog::spdlog_ex("cannot open it", errno);
    return file;
  }
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    if (lost_ > 0) ReportLost(message);
    if (lost_ > 0 || !Write({text.data(), text.size()})) Lose();
  }
  void flush_() override {}  // Each line is written at once.

  // Returns false if the text was not written completely.
  bool Write(std::string_view text) {
    if (!begins_line_ && WriteSome("\n") == 1) begins_line_ = true;
    if (!begins_line_) return false;
    const std::size_t written = WriteSome(text);
    begins_line_ = written == 0 || written == text.size();
    return written == text.size();
  }
  std::size_t WriteSome(std::string_view text) {
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t count = ::write(file_.get(), text.data() + written, text.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      written += static_cast<std::size_t>(count);
    }
    return written;
  }
  void Lose() {
    if (lost_++ > 0) return;
    std::fprintf(stderr,
                 "mlxcommd: cannot write the log %s: %s; lines are lost until this is fixed\n",
                 path_.c_str(), std::strerror(errno));
  }
  void ReportLost(const spdlog::details::log_msg& cause) {
    const std::string report =
        absl::StrCat(lost_, " lines before this one were lost: the log could not be written");
    spdlog::memory_buf_t text;
    formatter_->format({cause.time, {}, cause.logger_name, spdlog::level::warn, report}, text);
    if (Write({text.data(), text.size()})) lost_ = 0;
  }

  std::string path_;
  FileDescriptor file_;
  bool begins_line_ = true;  // False if the last line was cut short.
  std::uint64_t lost_ = 0;   // Counts the lines lost since the last one written.
};

// Does not limit debug lines, which were requested, nor the last lines before a crash.
class LimitedSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LimitedSink(spdlog::sink_ptr to) : to_(std::move(to)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const bool is_limited =
        message.level >= spdlog::level::info && message.level < spdlog::level::critical;
    if (!is_limited) return to_->log(message);
    const LogLimit::Verdict verdict =
        limit_.Take({message.payload.data(), message.payload.size()}, platform::MonotonicNow());
    if (verdict.left_out > 0) {
      const std::string report =
          absl::StrCat("omitted ", verdict.left_out, " lines that begin with \"",
                       std::string(verdict.source), "\": too many for the log");
      to_->log({message.time, {}, message.logger_name, spdlog::level::warn, report});
    }
    if (verdict.writes) to_->log(message);
  }
  void flush_() override { to_->flush(); }

  const spdlog::sink_ptr to_;
  LogLimit limit_;
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
    auto logger = std::make_shared<spdlog::logger>("mlxcommd",
                                                   std::make_shared<LimitedSink>(std::move(sink)));
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
    TakeMessagesOfLibraries();
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
    spdlog::info("SIGHUP: no log file to reopen");
    return absl::OkStatus();
  }
  try {
    file_->Reopen();
    spdlog::info("log reopened");
    return absl::OkStatus();
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("logging continues in the old file: ", error.what()));
  }
}

}  // namespace mlxcomm
