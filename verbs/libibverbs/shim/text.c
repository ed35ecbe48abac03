/* Names and rates, which need no device. */
#include "device.h"

#define NAME(table, i) ((unsigned)(i) < sizeof table / sizeof *table && table[i] ? table[i] : "unknown")

EXPORT const char *ibv_wc_status_str(int status) {
	static const char *const names[] = {
		"success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "Work Request Flushed Error", "memory management operation error",
		"bad response error", "local access error", "remote invalid request error", "remote access error",
		"remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
		"local RDD violation error", "remote invalid RD request", "aborted error", "invalid EE context number",
		"invalid EE context state", "fatal error", "response timeout error", "general error", "TM error",
		"TM software rendezvous",
	};
	return NAME(names, status);
}

EXPORT const char *ibv_event_type_str(int event) {
	static const char *const names[] = {
		"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained",
		"path migrated", "path migration request error", "local catastrophic error", "port active", "port error",
		"LID change", "P_Key table change", "SM change", "SRQ catastrophic error", "SRQ limit reached",
		"last WQE reached", "client reregistration", "GID table change", "WQ fatal",
	};
	return NAME(names, event);
}

EXPORT const char *ibv_node_type_str(int type) {
	static const char *const names[] = {NULL, "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router",
					    "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
	return NAME(names, type);
}

EXPORT const char *ibv_port_state_str(int state) {
	static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active deferred"};
	return NAME(names, state);
}

EXPORT const char *ibv_wr_opcode_str(int opcode) {
	static const char *const names[] = {
		"IBV_WR_RDMA_WRITE", "IBV_WR_RDMA_WRITE_WITH_IMM", "IBV_WR_SEND", "IBV_WR_SEND_WITH_IMM", "IBV_WR_RDMA_READ",
		"IBV_WR_ATOMIC_CMP_AND_SWP", "IBV_WR_ATOMIC_FETCH_AND_ADD", "IBV_WR_LOCAL_INV", "IBV_WR_BIND_MW",
		"IBV_WR_SEND_WITH_INV",
	};
	return NAME(names, opcode);
}

/* Static rates (enum ibv_rate): a multiple of 2.5 Gbit/s, where there is one, and Mbit/s. */
static const struct {
	int rate, multiple, mbps;
} rates[] = {
	{2, 1, 2500},     {5, 2, 5000},     {3, 4, 10000},     {6, 8, 20000},    {4, 12, 30000},   {7, 16, 40000},
	{8, 24, 60000},   {9, 32, 80000},   {10, 48, 120000},  {11, 5, 14062},   {12, 20, 56250},  {13, 40, 112500},
	{14, 60, 168750}, {15, 10, 25781},  {16, 40, 103125},  {17, 80, 206250}, {18, 120, 309375}, {19, 10, 28125},
	{20, 20, 50000},  {21, 160, 400000}, {22, 240, 600000}, {23, 320, 800000}, {24, 480, 1200000},
};

#define LOOK_UP(from, to, otherwise)                                                                                   \
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)                                                      \
		if (rates[i].from == value)                                                                            \
			return rates[i].to;                                                                            \
	return otherwise;

EXPORT int ibv_rate_to_mult(int value) { LOOK_UP(rate, multiple, -1) }
EXPORT int mult_to_ibv_rate(int value) { LOOK_UP(multiple, rate, 0) }
EXPORT int ibv_rate_to_mbps(int value) { LOOK_UP(rate, mbps, -1) }
EXPORT int mbps_to_ibv_rate(int value) { LOOK_UP(mbps, rate, 0) }
