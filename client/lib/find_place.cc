#include "client/lib/find_place.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "proto/system/small_file.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::client {
namespace {

using nlohmann::json;

struct Launcher {
  const char* rank;
  std::array<const char*, 2> sizes;  // The first one that is set is used.
  const char* sign;                  // Must be set as well, if there is one.
  const char* label;                 // The prefix of its jobs' names.
  // The same on all ranks of one launch, and usually different in others (mlxcomm_find_place).
  std::array<const char*, 5> launch;
  // Nothing that it sets distinguishes two launches: the job must be named.
  bool may_cross;
};

constexpr Launcher kLaunchers[] = {
    {"MLX_RANK",
     {"MLX_WORLD_SIZE"},
     nullptr,
     "mlx",
     {"MLX_HOSTFILE", "MLX_JACCL_COORDINATOR", "MLX_IBV_DEVICES", "NCCL_HOST_IP", "NCCL_PORT"},
     false},
    {"RANK",
     {"WORLD_SIZE"},
     "TORCHELASTIC_RUN_ID",
     "torchrun",
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
     false},
    {"OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     nullptr,
     "mpirun",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"},
     true},
    {"PMI_RANK",
     {"PMI_SIZE"},
     nullptr,
     "pmi",
     {"PMI_JOBID", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"},
     true},
    // A batch script of Slurm has SLURM_PROCID=0 too, but no step: it is alone.
    {"SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_STEP_ID",
     "slurm",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false},
    {"RANK", {"WORLD_SIZE"}, nullptr, "ranks", {"MASTER_ADDR", "MASTER_PORT"}, false},
};
// Files with one entry for each rank, as mlx.launch writes them.
constexpr char kDevicesFile[] = "MLX_IBV_DEVICES";
constexpr const char* kRankFiles[] = {"MLX_HOSTFILE", kDevicesFile};
// Variables with the address of rank 0, which may use a different name for itself from the one that
// the other ranks use.
constexpr std::array<std::string_view, 2> kAddresses = {"MASTER_ADDR", "NCCL_HOST_IP"};
constexpr std::size_t kOwnAddressesMax = 40;  // So that all fit into named_by.
constexpr std::size_t kFileBytesMax = 16 << 20;
constexpr std::size_t kReadableJobBytesMax = 100;
// Slurm numbers the steps that are not srun's (batch, interactive, ...) from the top.
constexpr std::int64_t kSlurmFirstSpecialStep = 0xfffffff0;

std::string Assignment(const std::string& name, const std::string& value) {
  return name + "=\"" + MakePrintable(value) + "\"";
}

// JACCL's own variables, which it reads before MLX's.
constexpr std::array<const char*, 2> kAlsoNamed[] = {
    {"MLX_RANK", "JACCL_RANK"},
    {kDevicesFile, "JACCL_IBV_DEVICES"},
    {"MLX_JACCL_COORDINATOR", "JACCL_COORDINATOR"},
};

// The one of its names under which a variable is set; if none is, MLX's.
const char* SetName(const Environment& environment, const char* name) {
  for (const auto& [usual, other] : kAlsoNamed) {
    if (std::string_view(name) == usual && environment(other)) return other;
  }
  return name;
}

Failure ReadNumber(const char* name, const std::string& text, std::int64_t& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size() && number >= 0) return {};
  return Invalid(Assignment(name, text) + ": expected a whole number that is not negative");
}

// The entries of a rank file: a JSON list, or an object with `hosts`. An empty file means one rank:
// mlx.launch writes that for a single host.
Failure ReadEntries(const char* name, const std::string& path, json& entries) {
  const auto wrong = [&](const std::string& what) {
    return Invalid(Assignment(name, path) + ": " + what);
  };
  // Does not use OpenToRead, which never waits, because a shell's <(...) is a pipe.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!ReadAtMost(file, kFileBytesMax, text)) {
    return wrong(errno == EFBIG ? "the file has more than 16 MiB" : "the file cannot be read");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) text = "[null]";
  try {
    entries = json::parse(text);
  } catch (const json::parse_error& error) {
    return wrong(MakePrintable(error.what()));
  }
  if (entries.is_object()) entries = entries.value("hosts", json());
  if (entries.is_array() && !entries.empty()) return {};
  return wrong("expected a list with one entry for each rank");
}

// MLX_IBV_DEVICES has a row for each rank: its devices that lead to each other rank (one, several,
// or null for none), and null for itself. The only entry of an empty file is not a list.
Failure CheckDevices(const char* name, const std::string& path, const json& rows) {
  if (rows.size() == 1 && rows[0].is_null()) return {};
  const auto wrong = [&](std::size_t row, const std::string& column, const std::string& what,
                         const json& got) {
    return Invalid(Assignment(name, path) + ": [" + std::to_string(row) + "]" + column +
                   ": expected " + what + ", got " + MakePrintable(got.dump().substr(0, 80)));
  };
  const auto is_name = [](const json& value) {
    return value.is_string() && !value.get_ref<const std::string&>().empty();
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].is_array() || rows[row].size() != rows.size()) {
      return wrong(row, "", "a list of " + std::to_string(rows.size()) + ", an entry for each rank",
                   rows[row]);
    }
    for (std::size_t to = 0; to < rows.size(); ++to) {
      const json& entry = rows[row][to];
      const std::string column = "[" + std::to_string(to) + "]";
      if (to == row && !entry.is_null()) {
        return wrong(row, column, "null, because no device leads from a rank to itself", entry);
      }
      const bool several =
          entry.is_array() && !entry.empty() && std::ranges::all_of(entry, is_name);
      if (!entry.is_null() && !is_name(entry) && !several) {
        return wrong(row, column, "a device, a list of devices, or null", entry);
      }
    }
  }
  return {};
}

// The size according to the files that MLX's own backends read; `said_by` names the source of
// `size`, if it is set already.
Failure SizeOfFiles(const Environment& environment, std::string said_by,
                    std::optional<std::int64_t>& size) {
  for (const char* const usual : kRankFiles) {
    const char* const name = SetName(environment, usual);
    const std::optional<std::string> path = environment(name);
    if (!path) continue;
    json entries;
    Failure failure = ReadEntries(name, *path, entries);
    if (failure.ok() && std::string_view(usual) == kDevicesFile)
      failure = CheckDevices(name, *path, entries);
    if (!failure.ok() && size) continue;  // The size is already known.
    if (!failure.ok()) return failure;
    const auto count = static_cast<std::int64_t>(entries.size());
    if (size.value_or(count) != count) {
      return Invalid(said_by + " says " + std::to_string(*size) + " ranks, but the file of " +
                     Assignment(name, *path) + " has " + std::to_string(count) +
                     ": set the one that is meant, and unset the other");
    }
    size = count;
    said_by = "the file of " + Assignment(name, *path);
  }
  return {};
}

Failure SizeOf(const Environment& environment, const Launcher& launcher,
               std::optional<std::int64_t>& size) {
  std::string said_by;
  for (const char* const name : launcher.sizes) {
    const std::optional<std::string> text = name == nullptr ? std::nullopt : environment(name);
    if (!text) continue;
    if (Failure failure = ReadNumber(name, *text, size.emplace()); !failure.ok()) return failure;
    said_by = Assignment(name, *text);
    break;
  }
  return &launcher == &kLaunchers[0] ? SizeOfFiles(environment, said_by, size) : Failure{};
}

// FNV-1a: the input is trusted, and the hash only has to distinguish launches.
std::string Digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::array<char, 17> out{};
  std::snprintf(out.data(), out.size(), "%016llx", static_cast<unsigned long long>(hash));
  return out.data();
}

// "10.0.0.1" of "10.0.0.1:5000" and the port; without a colon all of it is the host.
std::pair<std::string_view, std::string_view> HostAndPort(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return {address, {}};
  return {address.substr(0, colon), address.substr(colon + 1)};
}

// True for an entry that only this rank's host file has: its own, or one that cannot be reached
// from here (RFC 5737's addresses for documentation).
bool IsOfOneNode(std::string_view address) {
  if (address == "::" || address == "::1") return true;
  const auto [host, port] = HostAndPort(address);
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "[::]" || host == "::1" ||
         host == "[::1]" || host == "localhost" || host.starts_with("127.") ||
         host.starts_with("198.51.100.") || port == "0";
}

std::set<std::string> OwnAddresses() {
  std::set<std::string> own;
  std::array<char, 256> text{};
  if (::gethostname(text.data(), text.size() - 1) == 0) {
    const std::string name = text.data();
    const std::string first = name.substr(0, name.find('.'));
    own = {name, first, first + ".local"};
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return own;
  for (const ifaddrs* one = list; one != nullptr && own.size() < kOwnAddressesMax;
       one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const bool is_v4 = one->ifa_addr->sa_family == AF_INET;
    if (!is_v4 && one->ifa_addr->sa_family != AF_INET6) continue;
    const socklen_t bytes = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
            0 &&
        !IsOfOneNode(text.data())) {
      own.insert(text.data());
    }
  }
  ::freeifaddrs(list);
  return own;
}

// For an address that only this machine uses for itself, "*0123456789abcdef*...": the digests of
// the addresses by which other machines may know it.
std::string DigestOfAddress(const std::string& address) {
  if (!IsOfOneNode(address)) return Digest(address);
  std::string own = "*";
  for (const std::string& one : OwnAddresses()) own += Digest(one) + "*";
  return own;
}

// Returns the part that the host files of all ranks have in common; nullopt if they are equal.
std::optional<std::string> InCommon(const json& entries) {
  bool differ = false;
  std::set<std::string, std::less<>> ports;
  const auto look = [&](const json& address) {
    if (!address.is_string()) return;
    const auto& text = address.get_ref<const std::string&>();
    differ = differ || IsOfOneNode(text);
    const std::string_view port = HostAndPort(text).second;
    if (!port.empty() && port != "0") ports.emplace(port);
  };
  for (const json& entry : entries) {
    if (!entry.is_array()) look(entry);
    if (entry.is_array()) std::ranges::for_each(entry, look);
  }
  if (!differ) return std::nullopt;
  std::string common = std::to_string(entries.size());
  for (const std::string& port : ports) common += ":" + port;
  return common;
}

// The coordinator's port distinguishes two launches, so the devices need not: a program that writes
// the file on each machine knows only that machine's, and JACCL reads no other row.
bool HasCoordinator(const Environment& environment) {
  const auto coordinator = environment(SetName(environment, "MLX_JACCL_COORDINATOR"));
  return coordinator && !HostAndPort(*coordinator).second.empty();
}

// A variable that all ranks have, as part of the launch's name; `readable`: it may be shown as it
// is.
Failure InName(const char* usual, const char* name, std::string& value, bool& readable) {
  readable = IsPlainText(value);
  if (std::string_view(usual) == "MLX_JACCL_COORDINATOR") {
    const std::string_view port = HostAndPort(value).second;
    if (!port.empty()) value = "port-" + std::string(port);
  }
  if (std::ranges::find(kRankFiles, std::string_view(usual)) == std::end(kRankFiles)) return {};
  json entries;
  if (Failure failure = ReadEntries(name, value, entries); !failure.ok()) return failure;
  // A list of lists, as for several addresses of each rank, may have one of each.
  for (json& entry : entries) {
    if (std::string_view(usual) != kDevicesFile && entry.is_array() && entry.size() == 1) {
      json address = std::move(entry[0]);
      entry = std::move(address);
    }
  }
  value = InCommon(entries).value_or(entries.dump(-1, ' ', false, json::error_handler_t::replace));
  readable = false;
  return {};
}

// "slurm-88,0", "torchrun-none,node-a,29500"; long values and files' contents become a number.
Failure JobOf(const Environment& environment, const Launcher& launcher, Place& place) {
  std::string readable;
  std::string reported;
  for (const char* const usual : launcher.launch) {
    if (usual == nullptr) continue;
    const char* const name = SetName(environment, usual);
    std::optional<std::string> value = environment(name);
    if (!value) continue;
    if (std::string_view(usual) == kDevicesFile && HasCoordinator(environment)) continue;
    bool short_enough = false;
    if (Failure failure = InName(usual, name, *value, short_enough); !failure.ok()) return failure;
    reported += std::string(usual) + "=" + *value + "\n";
    const bool is_address =
        std::ranges::find(kAddresses, std::string_view(usual)) != kAddresses.end();
    place.named_by += (place.named_by.empty() ? "" : " ") + std::string(usual) + "=" +
                      (is_address ? DigestOfAddress(*value) : Digest(*value));
    place.job_from += (place.job_from.empty() ? "" : ", ") + std::string(name);
    readable += (readable.empty() ? "" : ",") + *value;
    if (!short_enough) readable.resize(kReadableJobBytesMax + 1);
  }
  if (reported.empty()) return {};
  const std::string what = readable.size() <= kReadableJobBytesMax ? readable : Digest(reported);
  place.job = std::string(launcher.label) + "-" + what;
  return {};
}

bool Speaks(const Environment& environment, const Launcher& launcher) {
  if (!environment(SetName(environment, launcher.rank))) return false;
  if (launcher.sign == nullptr) return true;
  const std::optional<std::string> sign = environment(launcher.sign);
  if (!sign || std::string_view(launcher.sign) != "SLURM_STEP_ID") return sign.has_value();
  std::int64_t step = 0;
  return ReadNumber(launcher.sign, *sign, step).ok() && step < kSlurmFirstSpecialStep;
}

Failure FindRank(const Environment& environment, const PlaceGiven& given, const Launcher* launcher,
                 Place& place) {
  std::optional<std::int64_t> rank = given.rank;
  std::optional<std::int64_t> size = given.size;
  const auto shown = [](const std::optional<std::int64_t>& number) {
    return number ? std::to_string(*number) : std::string("none");
  };
  if (launcher != nullptr && !rank) {
    const char* const name = SetName(environment, launcher->rank);
    const Failure failure = ReadNumber(name, *environment(name), rank.emplace());
    if (!failure.ok()) return failure;
  }
  if (launcher != nullptr && !size) {
    if (Failure failure = SizeOf(environment, *launcher, size); !failure.ok()) return failure;
    if (!size) {
      return Invalid(std::string(launcher->rank) + " is set but " + launcher->sizes[0] +
                     " is not: set both");
    }
  }
  if (!rank && !size && environment("PMIX_RANK")) {
    return Invalid(
        "PMIX_RANK is set, but no variable gives the size: set MLX_RANK and MLX_WORLD_SIZE, "
        "or start the ranks by mpirun, srun or mlxcommctl launch");
  }
  // Most likely the rank is missing: the process would train alone with wrong sums, and nothing
  // would report it.
  const std::optional<std::string> world = environment("MLX_WORLD_SIZE");
  if (!rank && !size && world && *world != "1") {
    return Invalid(Assignment("MLX_WORLD_SIZE", *world) +
                   " is set but MLX_RANK is not: set both or neither");
  }
  if (!rank && !size) return {};
  if (!rank || !size) {
    return Invalid("rank and size: expected both or neither, got rank " + shown(rank) +
                   " and size " + shown(size));
  }
  if (*size < 1 || *size > std::numeric_limits<std::uint32_t>::max()) {
    return Invalid(
        WhyWrong(given.size ? "size" : launcher->sizes[0], "1 or more, below 2^32", shown(size)));
  }
  if (*rank < 0 || *rank >= *size) {
    return Invalid(WhyWrong(given.rank ? "rank" : SetName(environment, launcher->rank),
                            "a rank below the size " + shown(size), shown(rank)));
  }
  place.rank = static_cast<std::uint32_t>(*rank);
  place.size = static_cast<std::uint32_t>(*size);
  return {};
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Failure FindPlace(const Environment& environment, const PlaceGiven& given, Place& place) {
  const auto* const found = std::ranges::find_if(
      kLaunchers, [&](const Launcher& one) { return Speaks(environment, one); });
  const Launcher* const launcher = found == std::end(kLaunchers) ? nullptr : found;
  place = {};
  place.launched = launcher != nullptr;
  if (Failure failure = FindRank(environment, given, launcher, place); !failure.ok())
    return failure;
  place.job = given.job;
  if (place.job.empty()) place.job = environment("MLXCOMM_JOB").value_or("");
  if (place.job.empty() && launcher != nullptr) {
    if (Failure failure = JobOf(environment, *launcher, place); !failure.ok()) return failure;
    if (place.job.empty() && launcher->may_cross && place.size > 1) {
      return Invalid(
          std::string(launcher->rank) +
          " is set, but no variable tells this launch from another: set MLXCOMM_JOB to a name of "
          "this launch on all its ranks (mpiexec -genv MLXCOMM_JOB NAME)");
    }
  }
  if (place.job.empty()) place.job = kDefaultJob;
  return {};
}

}  // namespace mlxcomm::client
