#include "client/mpi/launch_environment.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace mlxcomm::mpi {
namespace {

constexpr std::size_t kAlikeMax = 5;

struct Launcher {
  const char* rank;
  const char* size;
  std::array<const char*, kAlikeMax> alike;  // On all ranks of a launch, and on no other.
};
constexpr Launcher kLaunchers[] = {
    {"MLX_RANK", "MLX_WORLD_SIZE",
     {"MLX_HOSTFILE", "MLX_JACCL_COORDINATOR", "MLX_IBV_DEVICES", "NCCL_HOST_IP", "NCCL_PORT"}},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"}},
    {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID"}},
    {"SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}},
};
// Files with one entry for each rank, by the variable that names them.
constexpr const char* kRankFiles[] = {"MLX_HOSTFILE", "MLX_IBV_DEVICES"};

[[noreturn]] void Refuse(const std::string& name, const std::string& value, const std::string& expected) {
  throw std::runtime_error(name + "=" + value + ": expected " + expected);
}

std::uint32_t NumberOf(const char* name, const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    Refuse(name, text, "a whole number that is not negative");
  }
  return number;
}

// The entries of a rank file: a JSON list, or an object with `hosts`. An empty file stands
// for one rank: mlx.launch writes that for a single host.
nlohmann::json EntriesOf(const char* name, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Refuse(name, path, "a file that can be read");
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) Refuse(name, path, "a file of at most 16 MiB");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return nlohmann::json::array({nullptr});
  nlohmann::json hosts = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (hosts.is_object() && hosts.contains("hosts")) {
    nlohmann::json within = hosts["hosts"];
    hosts = std::move(within);
  }
  if (!hosts.is_array() || hosts.empty()) {
    Refuse(name, path, "a JSON list with one entry for each rank, or an object with such \"hosts\"");
  }
  return hosts;
}

bool IsRankFile(const char* name) {
  for (const char* const file : kRankFiles) {
    if (std::string(file) == name) return true;
  }
  return false;
}

// FNV-1a: jobs of one cluster are to be told apart, not kept secret.
std::string Digest(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string JobOf(const Launcher& launcher, const Environment& environment) {
  if (auto named = environment("MLXCOMM_JOB"); named && !named->empty()) return *named;
  std::string told;
  for (const char* const name : launcher.alike) {
    const std::optional<std::string> value = name == nullptr ? std::nullopt : environment(name);
    if (!value) continue;
    told += std::string(name) + "=" + (IsRankFile(name) ? EntriesOf(name, *value).dump() : *value) + "\n";
  }
  return told.empty() ? "default" : "mpi-" + Digest(told);
}

std::uint32_t SizeOf(const Launcher& launcher, const Environment& environment) {
  if (const auto size = environment(launcher.size)) return NumberOf(launcher.size, *size);
  for (const char* const name : kRankFiles) {
    if (&launcher != &kLaunchers[0]) break;
    if (const auto path = environment(name)) {
      return static_cast<std::uint32_t>(EntriesOf(name, *path).size());
    }
  }
  throw std::runtime_error(std::string(launcher.rank) + " is set but " + launcher.size +
                           " is not: set both");
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Place FindPlace(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<std::string> rank = environment(launcher.rank);
    if (!rank) continue;
    Place place{.job = {}, .rank = NumberOf(launcher.rank, *rank), .size = SizeOf(launcher, environment)};
    if (place.rank >= place.size) {
      Refuse(launcher.rank, *rank, "a rank below the size, which is " + std::to_string(place.size));
    }
    place.job = JobOf(launcher, environment);
    return place;
  }
  return {};
}

}  // namespace mlxcomm::mpi
