package verbs

const mbindNumber = 237 // __NR_mbind
