// The planners. README.md of daemon/collective, Plan and planners, has the table of kinds and
// plans.
//
// N nodes, n bytes (a rank's count), B bytes (blocks of all ranks), B_i those of node i's ranks, a
// = latency, b = time per byte on one link. A link is a directed pair of nodes; optimal_bytes.h has
// the figures.
#pragma once

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

// The cost model's choice, even if a plan is forced. kAutomatic on one node.
PlanKind ChoosePlan(const PlanRequest& request);
// Returns whether there is such a planner for this kind and layout.
bool OffersPlan(OperationKind kind, PlanKind plan, const GroupLayout& layout);

// --- ring. Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations
// (2009). Three or more nodes use both directions, with half of the data each.

// A reduce-scatter pass and an all-gather pass. 2(N-1) a + 2n (N-1)/N b, half of it with two links.
// Per slice, each link carries 2n minus the two blocks that its receiver starts with; from a few
// megabytes on there are several slices (slices.h). Unless in place, both passes of a slice are
// granted at once, and unfinished blocks lie in scratch memory.
void RingAllReduce(const PlanRequest& request, Plan& plan);
// (N-1) a + B (N-1)/N b. Each link: half of all blocks except those of its sender's ranks.
void RingReduceScatter(const PlanRequest& request, Plan& plan);
// N/2 a + B (N-1)/N b. Each block goes half-way round in both directions; if N is even, the
// opposite node gets a half from each side.
void RingAllGather(const PlanRequest& request, Plan& plan);
// A chain from the root, pipelined in chunks. (N-1) a + n b; n/2 on each link except those to the
// root.
void RingBroadcast(const PlanRequest& request, Plan& plan);
// A chain to the root, combined in the order of the chain. Costs as the broadcast.
void RingReduce(const PlanRequest& request, Plan& plan);

// --- exchange: one message from each node to every node that needs its data. a, and all bytes
// through the sender's links; the minimum number of steps.

// Every node combines all contributions, in the order of nodes. a + n (N-1) b; n on each link. Up
// to kEagerPartsMax times the eager size goes in that many messages, which need no grant. Two nodes
// of one rank each combine as they receive, without scratch memory unless in place.
void ExchangeAllReduce(const PlanRequest& request, Plan& plan);
// n on each link to the root's node.
void ExchangeReduce(const PlanRequest& request, Plan& plan);
// Sends B_j on the link to node j.
void ExchangeReduceScatter(const PlanRequest& request, Plan& plan);
// Sends B_i on each link from node i.
void ExchangeAllGather(const PlanRequest& request, Plan& plan);
// n on each link from the root's node.
void ExchangeBroadcast(const PlanRequest& request, Plan& plan);
// Sends the data of i's ranks for j's on the link from i to j. all_to_all_v sends a digest of
// counts first.
void ExchangeAllToAll(const PlanRequest& request, Plan& plan);
// Sends B_i on the link from node i to the root's.
void ExchangeGather(const PlanRequest& request, Plan& plan);
// Sends B_i on the link from the root's node to i.
void ExchangeScatter(const PlanRequest& request, Plan& plan);

// --- halving and doubling. Thakur, Rabenseifner, Gropp: Optimization of collective communication
// operations in MPICH (2005). P is the largest power of two <= N.

// 2 log2(P) a + 2n (P-1)/P b; N-P nodes fold into a neighbour for 2 a + 2n b more. In turn t,
// partners at distance 2^t exchange n / 2^(t+1), twice.
void HalvingDoublingAllReduce(const PlanRequest& request, Plan& plan);
// log2(N) a + B (N-1)/N b. On the link between nodes at distance d: the blocks of d nodes.
void HalvingReduceScatter(const PlanRequest& request, Plan& plan);
// Like halving, in reverse.
void DoublingAllGather(const PlanRequest& request, Plan& plan);
// Returns whether the two above are offered.
bool CanHalve(const GroupLayout& layout);

// --- tree: binomial. log2(N) steps, for small data on links with a high latency.

// n on each link from a parent to its child.
void TreeBroadcast(const PlanRequest& request, Plan& plan);
// n on each link from a child to its parent.
void TreeReduce(const PlanRequest& request, Plan& plan);
// Goes to the first node and back, with n on each link between child and parent.
void TreeAllReduce(const PlanRequest& request, Plan& plan);
// Sends the blocks of its subtree on the link from a child.
void TreeGather(const PlanRequest& request, Plan& plan);
// Sends the blocks of its subtree on the link to a child.
void TreeScatter(const PlanRequest& request, Plan& plan);

// --- single plans.

// all_reduce, reduce and reduce_scatter on one node: one local step per result.
void OneNodeReduction(const PlanRequest& request, Plan& plan);
// n on the link from source to destination.
void PointToPointPlan(const PlanRequest& request, Plan& plan);

}  // namespace mlxcomm::collective
