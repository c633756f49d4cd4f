#include "client/ctl/doctor/macos_text.h"

#include <cctype>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mlxcomm::ctl {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

std::string TextAt(const Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  if (found == object.fields().end() || found->second.kind_case() != Value::kStringValue) return {};
  return found->second.string_value();
}

const Value* At(const Struct& object, const std::string& key, Value::KindCase kind) {
  const auto found = object.fields().find(key);
  return found != object.fields().end() && found->second.kind_case() == kind ? &found->second
                                                                             : nullptr;
}

std::string GenerationOf(const std::string& bus, double gigabits) {
  if (gigabits >= 80) return "Thunderbolt 5";
  if (gigabits >= 40 || bus.starts_with("thunderboltusb4")) return "Thunderbolt 4 or USB4";
  return gigabits > 0 ? "Thunderbolt 3 or older" : "";
}

// Finds the device at the port: another computer has its own domain, perhaps among the _items of a
// dock or hub.
constexpr int kChainMax = 16;  // A real chain has at most six devices.
void AddPeer(const Struct& bus, ThunderboltPort& port, int depth = 0) {
  const Value* const items = At(bus, "_items", Value::kListValue);
  if (items == nullptr || depth >= kChainMax) return;
  for (const Value& item : items->list_value().values()) {
    if (item.kind_case() != Value::kStructValue) continue;
    const std::string name = TextAt(item.struct_value(), "device_name_key");
    const std::string domain = TextAt(item.struct_value(), "domain_uuid_key");
    // Prefer the computer to the first device.
    if (port.peer.empty() || (!domain.empty() && port.peer_domain.empty())) {
      port.peer = name.empty() ? TextAt(item.struct_value(), "_name") : name;
    }
    if (!domain.empty() && port.peer_domain.empty()) port.peer_domain = domain;
    AddPeer(item.struct_value(), port, depth + 1);
  }
}

std::vector<absl::string_view> WordsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

}  // namespace

double GigabitsIn(absl::string_view text) {
  const std::size_t unit = text.find("Gb/s");
  if (unit == absl::string_view::npos) return 0;
  std::size_t end = unit;
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                       text[begin - 1] == '.')) {
    --begin;
  }
  double value = 0;
  return absl::SimpleAtod(text.substr(begin, end - begin), &value) ? value : 0;
}

absl::StatusOr<std::vector<ThunderboltPort>> ParseThunderboltProfile(const std::string& json) {
  Struct whole;
  if (!google::protobuf::util::JsonStringToMessage(json, &whole).ok()) {
    return absl::InvalidArgumentError("system_profiler SPThunderboltDataType: not JSON");
  }
  const Value* const buses = At(whole, "SPThunderboltDataType", Value::kListValue);
  if (buses == nullptr) {
    return absl::InvalidArgumentError("system_profiler: no SPThunderboltDataType in it");
  }
  std::vector<ThunderboltPort> ports;
  for (const Value& entry : buses->list_value().values()) {
    if (entry.kind_case() != Value::kStructValue) continue;
    const Struct& bus = entry.struct_value();
    for (int number = 1; number <= 8; ++number) {
      const Value* const tag =
          At(bus, absl::StrCat("receptacle_", number, "_tag"), Value::kStructValue);
      if (tag == nullptr) continue;
      const Struct& receptacle = tag->struct_value();
      ThunderboltPort port;
      port.own_domain = TextAt(bus, "domain_uuid_key");
      port.receptacle = TextAt(receptacle, "receptacle_id_key");
      port.speed = TextAt(receptacle, "current_speed_key");
      port.gigabits_per_second = GigabitsIn(port.speed);
      port.generation = GenerationOf(TextAt(bus, "_name"), port.gigabits_per_second);
      AddPeer(bus, port);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::map<std::string, std::string> ParseHardwarePorts(absl::string_view text) {
  std::map<std::string, std::string> by_device;
  std::string port;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "Hardware Port:")) {
      port = std::string(absl::StripAsciiWhitespace(line));
    } else if (absl::ConsumePrefix(&line, "Device:") && !port.empty()) {
      by_device[std::string(absl::StripAsciiWhitespace(line))] = port;
      port.clear();
    }
  }
  return by_device;
}

// "(1) Wi-Fi", or "(*) Thunderbolt Bridge" if disabled; the next line is "(Hardware Port:
// Thunderbolt Bridge, Device: bridge0)".
std::map<std::string, NetworkService> ParseNetworkServices(absl::string_view text) {
  std::map<std::string, NetworkService> by_device;
  NetworkService service;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "(Hardware Port:")) {
      const std::size_t device = line.rfind("Device: ");
      if (device == absl::string_view::npos || service.name.empty()) continue;
      const absl::string_view name =
          absl::StripSuffix(absl::StripAsciiWhitespace(line.substr(device + 8)), ")");
      // If a device has several services, an enabled one is preferred.
      if (!name.empty()) {
        NetworkService& kept = by_device.try_emplace(std::string(name), service).first->second;
        if (!kept.enabled) kept = service;
      }
      service = {};
    } else if (absl::ConsumePrefix(&line, "(")) {
      const std::size_t close = line.find(") ");
      if (close == absl::string_view::npos) continue;
      service = {std::string(absl::StripAsciiWhitespace(line.substr(close + 2))),
                 line.substr(0, close) != "*"};
    }
  }
  return by_device;
}

std::vector<InterfaceFacts> ParseIfconfig(absl::string_view text) {
  std::vector<InterfaceFacts> all;
  std::map<std::string, std::string> bridge_of;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<absl::string_view> words = WordsOf(line);
    if (words.empty()) continue;
    if (std::isspace(static_cast<unsigned char>(line[0])) == 0) {
      InterfaceFacts& found = all.emplace_back();
      found.name = std::string(absl::StripSuffix(words[0], ":"));
      found.has_link_local = false;
      const std::size_t open = line.find('<');
      const std::size_t close = line.find('>');
      if (open != absl::string_view::npos && close != absl::string_view::npos && open < close) {
        for (const absl::string_view flag :
             absl::StrSplit(line.substr(open + 1, close - open - 1), ',')) {
          found.up = found.up || flag == "UP";
          found.running = found.running || flag == "RUNNING";
          found.loopback = found.loopback || flag == "LOOPBACK";
        }
      }
      for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] == "mtu" && !absl::SimpleAtoi(words[i + 1], &found.mtu)) found.mtu = 0;
      }
      continue;
    }
    if (all.empty() || words.size() < 2) continue;
    if (words[0] == "member:") bridge_of[std::string(words[1])] = all.back().name;
    if (words[0] == "status:") all.back().running = words[1] == "active";
    if (words[0] == "inet6" && absl::StartsWith(words[1], "fe80:"))
      all.back().has_link_local = true;
  }
  for (InterfaceFacts& found : all) {
    const auto bridge = bridge_of.find(found.name);
    if (bridge != bridge_of.end()) found.bridge = bridge->second;
  }
  return all;
}

std::optional<bool> ParseSleepSettings(absl::string_view text) {
  std::optional<bool> any;
  std::optional<bool> on_mains;
  bool mains = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, "AC Power")) mains = true;
    if (absl::StrContains(line, "Battery Power")) mains = false;
    const std::vector<absl::string_view> words = WordsOf(line);
    int minutes = 0;
    if (words.size() < 2 || words[0] != "sleep" || !absl::SimpleAtoi(words[1], &minutes)) continue;
    if (mains) on_mains = minutes > 0;
    if (!any) any = minutes > 0;
  }
  return on_mains ? on_mains : any;
}

FirewallState ParseFirewallState(absl::string_view text) {
  FirewallState state;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const std::string line = absl::AsciiStrToLower(raw);
    if (absl::StrContains(line, "blocking all")) {  // "Firewall is ...  (State = 2)".
      state.on = state.blocks_all = true;
      continue;
    }
    const bool enabled = absl::StrContains(line, "enabled");
    if (!enabled && !absl::StrContains(line, "disabled")) continue;
    if (absl::StrContains(line, "block all") || absl::StrContains(line, "block-all")) {
      state.blocks_all = enabled;
    } else if (line.starts_with("firewall is")) {
      state.on = enabled;
    }
  }
  return state;
}

std::optional<bool> ParseNetworkTime(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "Network Time:")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (line == "On") return true;
    if (line == "Off") return false;
  }
  return std::nullopt;
}

}  // namespace mlxcomm::ctl
