#include "daemon/fabric/node_places.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric {
namespace {

std::size_t OnInterface(std::span<const PlaceHolder> holders, link::NodeClaim claim,
                        const std::string& interface) {
  return static_cast<std::size_t>(std::ranges::count_if(holders, [&](const PlaceHolder& one) {
    return one.claim == claim && one.interface == interface;
  }));
}

// The newest holder of the claim on the interface that has the most of them.
std::size_t NewestOfFullest(std::span<const PlaceHolder> holders, link::NodeClaim claim) {
  std::size_t who = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].claim != claim) continue;
    const std::size_t on_it = OnInterface(holders, claim, holders[i].interface);
    if (on_it < most) continue;
    most = on_it;
    who = i;
  }
  return who;
}

std::size_t OfAddress(std::span<const PlaceHolder> holders, link::NodeClaim up_to,
                      const std::string& address) {
  return static_cast<std::size_t>(std::ranges::count_if(holders, [&](const PlaceHolder& one) {
    return one.claim <= up_to && one.address == address;
  }));
}

// The newest holder of the claim at the address with the most places, if that exceeds its share.
std::optional<std::size_t> NewestOfCrowdedAddress(std::span<const PlaceHolder> holders,
                                                  link::NodeClaim claim, std::size_t part) {
  std::optional<std::size_t> who;
  std::size_t most = part + 1;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].claim != claim || holders[i].address.empty()) continue;
    const std::size_t of_it = OfAddress(holders, link::NodeClaim::kFound, holders[i].address);
    if (of_it < most) continue;
    most = of_it;
    who = i;
  }
  return who;
}

}  // namespace

bool IsTooMany(wire::VerdictCode verdict) {
  return verdict == wire::VerdictCode::kTooManyNodes ||
         verdict == wire::VerdictCode::kTooManyOfAddress ||
         verdict == wire::VerdictCode::kTooManyConnections;
}

std::string TooManyText(wire::VerdictCode verdict, std::size_t nodes_max, const char* here) {
  std::string what = absl::StrCat(nodes_max, " nodes are linked ", here, " already");
  if (verdict == wire::VerdictCode::kTooManyOfAddress) {
    absl::StrAppend(&what, ", ", NodesOfAddressMax(nodes_max),
                    " or more of them from this address");
  } else if (verdict == wire::VerdictCode::kTooManyConnections) {
    what = absl::StrCat("too many connections for a further cable ", here, ": ",
                        ConnectionsMax(nodes_max), ", or ", ConnectionsOfAddressMax(nodes_max),
                        " from this address");
  }
  return absl::StrCat(what, ", as many as peers { nodes_max: ", nodes_max, " } allows: raise it ",
                      here, ", or stop daemons that are not needed");
}

PlaceAnswer FindPlace(const PlaceHolder& newcomer, std::span<const PlaceHolder> holders,
                      std::size_t nodes_max) {
  using Kind = PlaceAnswer::Kind;
  if (holders.size() < nodes_max) return {Kind::kFree, 0};
  const std::size_t part = NodesOfAddressMax(nodes_max);
  const bool wanted = newcomer.claim > link::NodeClaim::kFound;
  if (!wanted && !newcomer.address.empty() &&
      OfAddress(holders, link::NodeClaim::kFound, newcomer.address) >= part) {
    return {Kind::kAddressFull, 0};
  }
  const link::NodeClaim lowest = std::ranges::min_element(holders, {}, &PlaceHolder::claim)->claim;
  if (lowest < newcomer.claim) return {Kind::kYields, NewestOfFullest(holders, lowest)};
  if (lowest != newcomer.claim || wanted) return {Kind::kFull, 0};
  const auto crowded = NewestOfCrowdedAddress(holders, lowest, part);
  if (crowded.has_value() && !newcomer.address.empty()) return {Kind::kYields, *crowded};
  if (newcomer.interface.empty()) return {Kind::kFull, 0};
  const std::size_t who = NewestOfFullest(holders, lowest);
  const std::size_t there = OnInterface(holders, lowest, holders[who].interface);
  const std::size_t here = OnInterface(holders, lowest, newcomer.interface);
  return there >= here + 2 ? PlaceAnswer{Kind::kYields, who} : PlaceAnswer{Kind::kFull, 0};
}

}  // namespace mlxcomm::fabric
