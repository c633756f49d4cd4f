#include "daemon/log.h"

#include <utility>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

namespace mlxcomm {

absl::Status OpenLog(const v1::LogConfig& config, const std::string& level) {
  try {
    auto logger = config.file().empty() ? spdlog::stderr_color_mt("mlxcommd")
                                        : spdlog::basic_logger_mt("mlxcommd", config.file());
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(absl::StrCat("log file ", config.file(), ": ",
                                                      error.what()));
  }
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug,
                                                   spdlog::level::info,  spdlog::level::warn,
                                                   spdlog::level::err,   spdlog::level::off};
  spdlog::set_level(level.empty() ? kLevels[config.level()] : spdlog::level::from_str(level));
  return absl::OkStatus();
}

}  // namespace mlxcomm
