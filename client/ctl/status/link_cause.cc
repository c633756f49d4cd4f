#include "client/ctl/status/link_cause.h"

namespace mlxcomm::ctl {
namespace {

// These say who answers now, which outweighs how the link has ended.
bool SaysWhoAnswers(v1::LinkReason::Value reason) {
  return IsOfAnotherKey(reason) || reason == v1::LinkReason::version_too_far ||
         reason == v1::LinkReason::not_a_daemon || reason == v1::LinkReason::own_node;
}

}  // namespace

bool IsOfAnotherKey(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::wrong_key || reason == v1::LinkReason::wrong_cluster ||
         reason == v1::LinkReason::not_proved;
}

LinkCause CauseOf(const v1::LinkStatus& link) {
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() != v1::RailState::up && SaysWhoAnswers(rail.reason()))
      return {rail.reason(), rail.detail()};
  }
  return {link.reason(), link.detail()};
}

}  // namespace mlxcomm::ctl
