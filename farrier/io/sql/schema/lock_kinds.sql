-- One installation or removal at a time; those who run kinds go on.
LOCK TABLE farrier.kinds IN SHARE ROW EXCLUSIVE MODE
