#include "client/ctl/rank_place.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

namespace mlxcomm::ctl {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
};
constexpr Launcher kLaunchers[] = {{"MLX_RANK", "MLX_WORLD_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_NTASKS"},
                                   {"RANK", "WORLD_SIZE"}};
// Files with one entry for each rank, as mlx.launch writes them.
constexpr const char* kRankFiles[] = {"MLX_HOSTFILE", "MLX_IBV_DEVICES"};

bool ToNumber(const std::string& text, std::uint32_t& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size();
}

// A list, or an object with `hosts`; 0: neither.
std::uint32_t EntriesOf(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  google::protobuf::Value value;
  if (!google::protobuf::util::JsonStringToMessage(text.str(), &value).ok()) return 0;
  if (value.has_struct_value()) {
    const auto& fields = value.struct_value().fields();
    const auto hosts = fields.find("hosts");
    if (hosts == fields.end()) return 0;
    return static_cast<std::uint32_t>(hosts->second.list_value().values_size());
  }
  return static_cast<std::uint32_t>(value.list_value().values_size());
}

}  // namespace

std::optional<RankPlace> FindPlace(const Environment& environment, std::string& error) {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<std::string> rank = environment(launcher.rank);
    if (!rank) continue;
    std::optional<std::string> size = environment(launcher.size);
    std::string named = launcher.size;
    for (const char* const name : kRankFiles) {
      if (size || launcher.rank != kLaunchers[0].rank) break;
      if (const std::optional<std::string> path = environment(name)) {
        size = std::to_string(EntriesOf(*path));
        named = name;
      }
    }
    RankPlace place;
    if (!size) {
      error = std::string(launcher.rank) + " is set but " + launcher.size + " is not: set both";
    } else if (!ToNumber(*rank, place.rank) || !ToNumber(*size, place.size) ||
               place.rank >= place.size) {
      error = std::string(launcher.rank) + "=" + *rank + " and a size of " + *size + " (" + named +
              "): expected whole numbers, the rank below the size";
    } else {
      return place;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace mlxcomm::ctl
