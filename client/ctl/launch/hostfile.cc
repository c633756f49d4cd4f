#include "client/ctl/launch/hostfile.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <set>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "proto/system/small_file.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

using nlohmann::json;

constexpr std::size_t kFileBytesMax = 16 << 20;
// Limits user and host together. Also limits brackets, which can expand a short text to thousands
// of names.
constexpr std::size_t kHostNameBytesMax = 255;
// JSON is processed recursively, so deep nesting would overflow the stack. MLX's hosts need 5.
constexpr std::size_t kNestingMax = 16;
constexpr std::size_t kSkippedMax = 16;  // Kinds of settings.

Failure Invalid(const std::string& place, const std::string& what) {
  return {FailureCode::kInvalidArgument, kNoRank, place + ": " + what};
}

std::string InQuotes(std::string_view text) { return "\"" + MakePrintable(text) + "\""; }

bool ReadCount(std::string_view text, unsigned least, unsigned& count) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  return code == std::errc() && end == text.data() + text.size() && count >= least &&
         count <= kSlotsMax;
}

// Appends the numbers of "01-03" or "7"; returns false if invalid or too many.
bool AddNumbers(std::string_view part, std::vector<std::string>& numbers) {
  const std::size_t dash = part.find('-');
  const std::string_view low = part.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const auto number = [](std::string_view text, std::uint32_t& value) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return code == std::errc() && end == text.data() + text.size() && !text.empty();
  };
  if (!number(low, first) || !number(high, last) || first > last ||
      last - first >= kHostsMax - numbers.size() || low.size() > kHostNameBytesMax) {
    return false;
  }
  for (std::uint64_t i = first; i <= last; ++i) {  // 64 bits, because `last` may be UINT32_MAX.
    std::string digits = std::to_string(i);
    if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return true;
}

// Appends each of `ends` to each name; returns false for more than kHostsMax names or
// kHostNameBytesMax bytes.
bool Lengthen(const std::vector<std::string>& ends, std::vector<std::string>& names) {
  if (ends.empty() || names.size() * ends.size() > kHostsMax) return false;
  std::vector<std::string> longer;
  for (const std::string& name : names) {
    for (const std::string& end : ends) {
      if (name.size() + end.size() > kHostNameBytesMax) return false;
      longer.push_back(name + end);
    }
  }
  names = std::move(longer);
  return true;
}

// Expands brackets from left to right.
bool Expand(std::string_view text, std::vector<std::string>& names) {
  names.assign(1, "");
  for (;;) {
    const std::size_t open = text.find('[');
    if (!Lengthen({std::string(text.substr(0, open))}, names)) return false;
    if (open == std::string_view::npos) return true;
    const std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    std::vector<std::string> numbers;
    std::istringstream parts{std::string(text.substr(open + 1, close - open - 1))};
    for (std::string part; std::getline(parts, part, ',');) {
      if (!AddNumbers(part, numbers)) return false;
    }
    if (!Lengthen(numbers, names)) return false;
    text.remove_prefix(close + 1);
  }
}

Failure AddHosts(const std::string& place, const std::string& text, unsigned slots,
                 Hostfile& file) {
  std::vector<std::string> names;
  if (!Expand(text, names) || !std::ranges::all_of(names, IsHostName)) {
    return Invalid(place, "expected a host like mac-1, user@10.0.0.1 or node[01-04] (at most " +
                              std::to_string(kHostsMax) + ", of at most " +
                              std::to_string(kHostNameBytesMax) + " bytes each), got " +
                              InQuotes(std::string_view(text).substr(0, kHostNameBytesMax)));
  }
  if (file.hosts.size() + names.size() > kHostsMax) {
    return Invalid(place, "expected at most " + std::to_string(kHostsMax) + " hosts");
  }
  for (std::string& name : names) {
    HostEntry entry;
    entry.name = std::move(name);
    entry.slots = slots;
    file.hosts.push_back(std::move(entry));
  }
  return {};
}

bool IsOneOf(const std::string& word, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* one) { return word == one; });
}

// "[fe80::1%en5]", which is neither a range nor JSON.
bool IsAddressInBrackets(std::string_view text) {
  const std::size_t close = text.find(']');
  if (!text.starts_with('[') || close == std::string_view::npos) return false;
  const std::string_view inside = text.substr(1, close - 1);
  return std::ranges::count(inside, ':') > 1 &&
         inside.find_first_of("[{\", \t\r\n") == std::string_view::npos;
}

// Splits "HOST:N" or "[ADDRESS]:N". Without brackets, several colons mean an IPv6 address.
Failure TakeCount(const std::string& place, std::string& host, unsigned& slots) {
  std::size_t colon = host.find(':');
  if (IsAddressInBrackets(host)) {
    const std::size_t close = host.find(']');
    if (close + 1 < host.size() && host[close + 1] != ':')
      return Invalid(place, "expected an address, got " + InQuotes(host));
    host = host.substr(1, close - 1) + host.substr(close + 1);
    colon = close - 1;
    if (colon == host.size()) return {};
  } else if (std::ranges::count(host, ':') != 1) {
    return {};
  }
  if (!ReadCount(std::string_view(host).substr(colon + 1), 1, slots)) {
    return Invalid(place, "expected HOST:N with N at most " + std::to_string(kSlotsMax) + ", got " +
                              InQuotes(std::string_view(host).substr(0, kHostNameBytesMax)));
  }
  host.resize(colon);
  return {};
}

// Reads "slots=2" and similar settings of a host. The names of settings that only concern MPI, such
// as Hydra's binding, are added to `skipped`.
Failure ReadMpiSetting(const std::string& place, const std::string& word, unsigned& slots,
                       unsigned& slots_max, std::string& user, std::set<std::string>& skipped) {
  const std::size_t equals = word.find('=');
  std::string name = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  std::ranges::replace(name, '-', '_');
  const bool count = IsOneOf(name, {"slots", "cpu", "count"});
  if (count ||
      IsOneOf(name, {"max_slots", "slots_max", "cpu_max", "max_cpu", "count_max", "max_count"})) {
    if (value == "auto") {  // A rank for each core in PRRTE; but a Mac has one GPU.
      skipped.insert(name + "=auto");
      return {};
    }
    const unsigned least = count ? 0 : 1;  // slots=0 excludes the host, as in Open MPI.
    if (ReadCount(value, least, count ? slots : slots_max)) return {};
    return Invalid(place, name + ": expected " + std::to_string(least) + " to " +
                              std::to_string(kSlotsMax) + ", got " + InQuotes(value));
  }
  if (IsOneOf(name, {"user", "username", "user_name", "login"}) && !value.empty()) {
    user = value;
    return {};
  }
  if (equals != std::string::npos && equals > 0 && skipped.size() < kSkippedMax) {
    skipped.insert(MakePrintable(name.substr(0, kHostNameBytesMax)));
    return {};
  }
  return Invalid(
      place, "expected slots=N, max_slots=N or user=NAME after the host, got " + InQuotes(word));
}

// Open MPI allows blanks around "=". One pass, because a line may be as long as the file.
std::string WithoutBlanksAroundSigns(std::string_view line) {
  std::string joined;
  for (const char c : line) {
    if (c == ' ' && joined.ends_with('=')) continue;
    while (c == '=' && joined.ends_with(' ')) joined.pop_back();
    joined += c;
  }
  return joined;
}

Failure ParseMpiLine(const std::string& place, std::string_view line, Hostfile& file,
                     std::set<std::string>& skipped) {
  std::istringstream words(WithoutBlanksAroundSigns(line.substr(0, line.find('#'))));
  std::string host;
  if (!(words >> host)) return {};
  if (host.starts_with('^')) {
    return Invalid(place, InQuotes(host) +
                              " excludes a host, which is not supported: delete the line, and list "
                              "the hosts to use");
  }
  unsigned slots = 1;
  unsigned slots_max = kSlotsMax;
  std::string user;
  // MPICH's "HOST:N".
  if (Failure failure = TakeCount(place, host, slots); !failure.ok()) return failure;
  for (std::string word; words >> word;) {
    if (Failure failure = ReadMpiSetting(place, word, slots, slots_max, user, skipped);
        !failure.ok())
      return failure;
  }
  if (slots > slots_max) {
    return Invalid(place, "slots=" + std::to_string(slots) +
                              " is more than max_slots=" + std::to_string(slots_max));
  }
  return AddHosts(place, user.empty() ? host : user + "@" + host, slots, file);
}

Failure ParseMpi(const std::string& path, std::string_view text, Hostfile& file) {
  std::istringstream lines{std::string(text)};
  std::set<std::string> skipped;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace_if(line, [](char c) { return c == '\t' || c == '\r'; }, ' ');
    const std::string place = path + ":" + std::to_string(++number);
    if (Failure failure = ParseMpiLine(place, line, file, skipped); !failure.ok()) return failure;
  }
  for (const std::string& name : skipped)
    file.note += (file.note.empty() ? "ignored settings: " : ", ") + name;
  return {};
}

Failure ReadText(const std::string& place, const json& value, std::string& text) {
  if (!value.is_string())
    return Invalid(place, "expected a text, got " + value.dump().substr(0, 80));
  text = value.get<std::string>();
  if (IsPlainText(text)) return {};
  return Invalid(place, "expected a text without control characters");
}

Failure ReadTexts(const std::string& place, const json& values, std::vector<std::string>& texts) {
  if (!values.is_array())
    return Invalid(place, "expected a list, got " + values.dump().substr(0, 80));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Failure failure =
        ReadText(place + "[" + std::to_string(i) + "]", values[i], texts.emplace_back());
    if (!failure.ok()) return failure;
  }
  return {};
}

Failure ReadHost(const std::string& place, const json& value, HostEntry& host) {
  if (!value.is_object()) {
    return Invalid(
        place,
        "expected {\"ssh\": ...}, got " + value.dump().substr(0, 80) +
            (value.is_array() ? " (is this a file of addresses that mlx.launch made for its ranks?)"
                              : ""));
  }
  if (!value.contains("ssh")) return Invalid(place, "expected \"ssh\", the host name");
  if (Failure failure = ReadText(place + ".ssh", value["ssh"], host.name); !failure.ok())
    return failure;
  if (!IsHostName(host.name)) {
    return Invalid(place + ".ssh",
                   "expected a host like mac-1 or user@10.0.0.1, got " + InQuotes(host.name));
  }
  if (!value.contains("slots")) return {};
  const json& slots = value["slots"];
  const std::uint64_t count = slots.is_number_unsigned() ? slots.get<std::uint64_t>() : 0;
  if (!slots.is_number_unsigned() || count > kSlotsMax) {
    return Invalid(place + ".slots",
                   "expected 0 to " + std::to_string(kSlotsMax) + ", got " + slots.dump());
  }
  host.slots = static_cast<unsigned>(count);
  return {};
}

Failure ReadHosts(const std::string& path, const json& root, Hostfile& file) {
  const json hosts = root.is_array() ? root : root.value("hosts", json());
  if (!hosts.is_array()) return Invalid(path, "expected \"hosts\", a list");
  if (hosts.size() > kHostsMax) {
    return Invalid(path, "expected at most " + std::to_string(kHostsMax) + " hosts");
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string place = path + ": hosts[" + std::to_string(i) + "]";
    if (Failure failure = ReadHost(place, hosts[i], file.hosts.emplace_back()); !failure.ok())
      return failure;
  }
  return {};
}

// Returns the maximum nesting depth, ignoring brackets in quotes.
std::size_t NestingOf(std::string_view text) {
  std::size_t depth = 0;
  std::size_t most = 0;
  bool in_quotes = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_quotes && c == '\\') ++i;  // The next byte is escaped.
    if (c == '"') in_quotes = !in_quotes;
    if (in_quotes) continue;
    if (c == '[' || c == '{') most = std::max(most, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return most;
}

Failure ParseMlx(const std::string& path, std::string_view text, Hostfile& file) {
  if (const std::size_t nesting = NestingOf(text); nesting > kNestingMax) {
    return Invalid(path, "expected lists and objects nested at most " +
                             std::to_string(kNestingMax) + " deep (MLX's hosts need 5), got " +
                             std::to_string(nesting) + ": remove the deeper fields");
  }
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 2, column 7: ..."; it may quote a
    // number as long as the file.
    const std::string what = std::string(error.what()).substr(0, 512);
    return Invalid(path, MakePrintable(what.substr(std::min(what.size(), what.find("] ") + 2))));
  }
  if (root.is_object() && root.contains("envs")) {
    if (Failure failure = ReadTexts(path + ": envs", root["envs"], file.envs); !failure.ok())
      return failure;
  }
  return ReadHosts(path, root, file);
}

// Returns true for 127.0.0.1, ::1, localhost and this machine's own name, which need no ssh.
bool IsThisMachine(const std::string& host, const std::string& own_name) {
  const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
  if (host == "127.0.0.1" || host == "::1" || host == "localhost") return true;
  // Compares first labels only if `host` has no dots, so not for 10.0.0.1.
  return host == own_name || (!own_name.empty() && host == first_label(own_name));
}

}  // namespace

bool IsHostName(std::string_view name) {
  const std::size_t at = name.rfind('@');
  const std::string_view user = at == std::string_view::npos ? "" : name.substr(0, at);
  const std::string_view host = at == std::string_view::npos ? name : name.substr(at + 1);
  constexpr char kNot[] = " \"'`$;&<>|(){}[]/";  // A user may have a domain: STUDIO\ada.
  return !host.empty() && host.front() != '-' && (at == std::string_view::npos || !user.empty()) &&
         !user.starts_with('-') && name.size() <= kHostNameBytesMax && IsPlainText(name) &&
         name.find_first_of(kNot) == std::string_view::npos &&
         host.find('\\') == std::string_view::npos;
}

Failure ParseHostfile(const std::string& path, std::string_view text, Hostfile& file) {
  file = {};
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // A byte order mark.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos &&
                       (text[first] == '{' || text[first] == '[') &&
                       !IsAddressInBrackets(text.substr(first));
  const Failure failure = is_json ? ParseMlx(path, text, file) : ParseMpi(path, text, file);
  if (!failure.ok()) return failure;
  if (!file.hosts.empty()) return {};
  return Invalid(path,
                 "expected hosts: MLX's list of {\"ssh\": ...}, or lines like `mac-1 slots=2`");
}

Failure ReadHostfile(const std::string& path, Hostfile& file) {
  const FileDescriptor stream(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!ReadAtMost(stream, kFileBytesMax, text)) {
    return Invalid(path, errno == EFBIG ? "the file exceeds 16 MiB" : "cannot read the file");
  }
  return ParseHostfile(path, text, file);
}

Failure ParseHostList(const std::string& called, std::string_view text, Hostfile& file) {
  file = {};
  std::string host;
  bool inside = false;  // Inside brackets, where commas separate numbers.
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] != ',' || inside)) {
      inside = text[i] == '[' || (inside && text[i] != ']');
      host += text[i];
      continue;
    }
    unsigned slots = 1;
    if (Failure failure = TakeCount(called, host, slots); !failure.ok()) return failure;
    if (Failure failure = AddHosts(called, host, slots, file); !failure.ok()) return failure;
    host.clear();
  }
  return {};
}

std::vector<PlacedRanks> PlaceRanks(const std::vector<HostEntry>& hosts, unsigned per_host,
                                    const std::string& own_name) {
  std::vector<PlacedRanks> placed;
  unsigned next = 0;
  for (const HostEntry& host : hosts) {
    const bool local = IsThisMachine(host.name, own_name);
    const unsigned count = per_host != 0 && host.slots != 0 ? per_host : host.slots;
    if (count == 0) continue;
    auto found = std::ranges::find_if(
        placed, [&](const PlacedRanks& one) { return local ? one.local : one.host == host.name; });
    if (found == placed.end()) found = placed.insert(placed.end(), {host.name, local, {}});
    for (unsigned i = 0; i < count; ++i) found->ranks.push_back(next++);
  }
  return placed;
}

}  // namespace mlxcomm::ctl
